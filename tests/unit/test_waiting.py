"""Announcements of work: watchers, texts, and the cost without a watcher."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

import numpy as np
import pytest
from numba import cuda
from ptx_kernels import kernel, run

import tilewright as tw
from tilewright.ground.progress import Activity, announced, watched
from tilewright.multiply.backends.cpu import product
from tilewright.simulate.run.execution import Execution


class Notes:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.started_works: list[Activity] = []
        self.ended_works: list[Activity] = []
        self.shares: list[float] = []

    def started(self, work: Activity) -> None:
        self.started_works.append(work)

    def ended(self, work: Activity) -> None:
        self.ended_works.append(work)
        self.shares.append(work.share())

    @property
    def shown(self) -> list[str]:
        return [f"{work.doing} {work.what}" for work in self.started_works]


@pytest.fixture
def beyond_its_first_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches are not done in their first turn, which is too short to be announced."""
    monkeypatch.setattr(Execution, "_is_small", lambda self: False)


@pytest.mark.usefixtures("beyond_its_first_turn")
def test_a_launch_announces_its_translation_and_its_blocks() -> None:
    notes = Notes()
    with watched(notes):
        run(kernel("st.global.u32 [%at], %tid;"), np.zeros(70, np.uint32), grid=7, block=10)
    assert notes.shown == ["translating k", "running k"]
    assert notes.ended_works == notes.started_works
    assert (notes.started_works[1].parts, notes.started_works[1].unit) == (7, "blocks")
    assert 0.5 < notes.shares[1] <= 1


@pytest.mark.usefixtures("beyond_its_first_turn")
def test_a_kernel_of_a_program_announces_each_step() -> None:
    @cuda.jit
    def double(x: Any) -> None:
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    notes = Notes()
    with watched(notes), tw.simulated_gpu():
        double[1, 32](np.ones(32, np.float32))
    assert notes.shown == ["compiling double", "translating double", "running double"]


def test_a_long_product_announces_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "_LONG_EFFORT", 0)
    monkeypatch.setattr(product, "_PART_EFFORT", 100_000)
    notes = Notes()
    a, b = np.ones((130, 70), np.float32), np.ones((70, 131), np.float32)
    with watched(notes):
        c = tw.matmul(a, b, threads=2)
    assert (c == 70).all()
    assert notes.shown == ["multiplying 130 x 70 by 70 x 131"]
    assert notes.started_works[0].parts > 4
    assert notes.shares[0] >= 0.5


def test_a_short_product_announces_nothing() -> None:
    notes = Notes()
    with watched(notes):
        tw.matmul(np.ones((300, 300), np.float32), np.ones((300, 300), np.float32))
    assert notes.shown == []


def test_work_that_fails_has_ended_too() -> None:
    notes = Notes()
    with watched(notes), contextlib.suppress(KeyboardInterrupt), announced("running", "a", 4, "blocks"):
        raise KeyboardInterrupt
    assert notes.ended_works == notes.started_works
    with announced("running", "b"):
        pass
    assert notes.shown == ["running a"]


def test_a_share_is_none_of_nothing_and_never_more_than_all() -> None:
    assert Activity("running", "a").share() == 0
    assert Activity("running", "a", 4, "blocks", lambda: 5).share() == 1


def test_a_forked_child_has_no_watcher() -> None:
    notes = Notes()
    with watched(notes):
        child = os.fork()
        if not child:  # pragma: no cover
            with announced("running", "in a child"):
                os._exit(len(notes.started_works))
        assert os.waitpid(child, 0)[1] == 0


def test_an_announcement_costs_little_without_a_watcher() -> None:
    def announce() -> None:
        for _ in range(1000):
            with announced("running", "a", 4, "blocks"):
                pass

    def least(function: Any) -> float:
        times = []
        for _ in range(20):
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
        return min(times)

    assert least(announce) < 10e-6 * 1000  # 0.4 us each on a quiet host
