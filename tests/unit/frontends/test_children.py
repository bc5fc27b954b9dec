"""Reports of launches in processes that a program starts."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")

import numpy as np
from numba import cuda

import tilewright as tw
from tilewright.checking import Checks
from tilewright.frontends.children import ChildLaunches
from tilewright.observe.instruments.findings import Finding
from tilewright.profiling import Profiles


def test_a_report_after_many_launches_takes_no_longer_than_after_one():
    checks = Checks(gpu="h100")
    for _ in range(500):
        checks._found.append(Finding(code="TW101", kernel="k", ptx_line=9, block=(0, 0, 0)))
        report = checks.report()
        assert len(checks._found) == 1
    assert [found["count"] for found in report["findings"]] == [500]


def test_two_processes_with_one_number_write_two_reports(tmp_path: Path):
    for launches in (3, 4):  # two processes, one after the other, of one number
        checks = Checks(gpu="h100")
        checks.launches = launches
        child = ChildLaunches(tmp_path / "launched", 0, checks)
        child.write_report()
        child.write_report()
    assert sorted(report["launches"] for report in child.reports) == [3, 4]


def test_a_forked_process_reports_only_its_own_launches_and_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, parent = Profiles(gpu="t4"), os.getpid()
    seen.failed.append(("the parent's", "ended"))
    forked = ChildLaunches(tmp_path / "launched", parent, seen)
    monkeypatch.setattr("os.getpid", lambda: parent + 1)
    for name in ("first", "second"):
        launch: Any = SimpleNamespace(name=name, index=0)
        seen.instruments(launch)
        seen.finished(launch, None, ValueError("ended"))
        forked.finished(launch, None, None)
    gathered = Profiles(gpu="t4")
    for report in forked.reports:
        gathered.take_report(report)
    assert gathered.failed == [("first", "ended"), ("second", "ended")]
    assert (gathered.kernels, gathered.launches) == (("first", "second"), 1)


@pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning")
@pytest.mark.parametrize("halves", [1, 2])
def test_a_report_between_two_launches_keeps_elements_that_the_first_left_out(halves: int):
    @cuda.jit
    def half(out, first):
        i = cuda.grid(1) + first
        if i < out.size:
            out[i] = i

    with tw.simulated_gpu("h100", check=True) as gpu:
        out = cuda.device_array(64, np.float32)
        for first in (0, 32)[:halves]:
            half[1, 32](out, first)
            between = [finding.code for finding in gpu.findings]
    assert bool(between) == (halves == 1), "the half left out is reported until it is written"
