"""Peers: what they multiply with, where, and which clock times them; fakes stand in for missing libraries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.ladder import operands
from tilewright.show.rates.peers import PEERS

A, B = operands(5, 6, 7, "float32")


class Event:
    """An event on a GPU whose clock says 3 ms between any two."""

    def __init__(self, **_: object) -> None:
        self.recorded = self.waited = False

    def record(self) -> None:
        self.recorded = True

    def synchronize(self) -> None:
        self.waited = True

    def elapsed_time(self, end: Event) -> float:
        assert self.recorded
        assert end.waited
        return 3.0


class Tensor:
    """An array that names its device."""

    def __init__(self, array: Any, device: str = "cpu") -> None:
        self.array, self.device = array, device

    def to(self, device: str) -> Tensor:
        return Tensor(self.array, device)

    def cpu(self) -> Any:
        return self.array


def test_numpy_multiplies_on_the_host() -> None:
    ready = PEERS["numpy"].ready(A, B, "cpu")
    assert ready.timed is None
    np.testing.assert_array_equal(ready.product(), A @ B)


@pytest.mark.parametrize(("device", "own_clock"), [("cpu", False), ("cuda", True)])
def test_torch_is_timed_by_events_on_a_gpu(device: str, own_clock: bool) -> None:
    def matmul(a: Tensor, b: Tensor) -> Tensor:
        assert a.device == b.device == device
        return Tensor(a.array @ b.array, device)

    torch = SimpleNamespace(from_numpy=Tensor, matmul=matmul, cuda=SimpleNamespace(Event=Event))
    ready = PEERS["torch"].prepare(torch, A, B, device)
    np.testing.assert_array_equal(ready.product(), A @ B)
    assert (ready.timed is not None) == own_clock
    assert ready.timed is None or ready.timed() == pytest.approx(0.003)


def test_cupy_is_timed_by_events() -> None:
    events = SimpleNamespace(Event=Event, get_elapsed_time=lambda start, end: start.elapsed_time(end))
    cupy = SimpleNamespace(asarray=np.asarray, asnumpy=np.asarray, matmul=np.matmul, cuda=events)
    ready = PEERS["cupy"].prepare(cupy, A, B, "cuda")
    np.testing.assert_array_equal(ready.product(), A @ B)
    assert ready.timed is not None
    assert ready.timed() == pytest.approx(0.003)


def test_jax_waits_for_its_product() -> None:
    jax = pytest.importorskip("jax", reason="a peer that few have")
    for dtype in ("float64", "int64"):
        a, b = operands(5, 6, 7, dtype)
        ready = PEERS["jax"].prepare(jax, a, b, "cpu")
        assert ready.product().dtype == a.dtype  # by default JAX would make it 32-bit
        np.testing.assert_allclose(ready.product(), a @ b, rtol=1e-13)
        ready.call()
