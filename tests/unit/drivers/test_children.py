"""Reports of launches in processes that a program starts."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")

import numpy as np
from numba import cuda

import tilewright as tw
from tilewright.checking import Checks
from tilewright.drivers.children import ChildLaunches
from tilewright.instruments.findings import Finding


def test_a_report_after_many_launches_takes_no_longer_than_after_one():
    checks = Checks(gpu="h100")
    for _ in range(500):
        checks.add([Finding(code="TW101", kernel="k", ptx_line=9, block=(0, 0, 0))])
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
