"""Tests of the simulated driver need numba-cuda, and one simulated GPU at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tilewright as tw
from tilewright.drivers.gpu import SimulatedGpu

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")


@pytest.fixture
def gpu() -> Iterator[SimulatedGpu]:
    with tw.simulated_gpu("h100") as device:
        yield device
