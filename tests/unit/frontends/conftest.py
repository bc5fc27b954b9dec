"""Tests of the simulated driver: most need numba-cuda; those of torch, Triton, CuPy and CuTe run without it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright as tw
from tilewright.simulate.device.gpu import SimulatedGpu

#: Tests of packages whose programs need no numba-cuda; one of their tests imports it itself.
_WITHOUT_NUMBA = (
    "test_torch_cuda.py",
    "test_torch_compile.py",
    "test_triton_cuda.py",
    "test_cupy.py",
    "test_cupy_products.py",
    "test_cublas_oracle.py",
    "test_cute_cuda.py",
)
_HAS_NUMBA = importlib.util.find_spec("numba_cuda") is not None


def pytest_report_header() -> str:
    """Say which tests are left out."""
    return "" if _HAS_NUMBA else "not run: tests of the simulated driver that need numba-cuda, which is not installed"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files that import numba-cuda, where there is none."""
    return None if _HAS_NUMBA or collection_path.name in _WITHOUT_NUMBA else True


@pytest.fixture
def gpu() -> Iterator[SimulatedGpu]:
    with tw.simulated_gpu("h100") as device:
        yield device
