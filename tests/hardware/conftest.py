"""Fixtures of the hardware tests; without a GPU `tests/conftest.py` reports these tests as not run."""

from __future__ import annotations

import pytest

from tilewright.multiply.backends.cuda import device


@pytest.fixture
def compute_capability() -> tuple[int, int]:
    """The GPU's compute capability."""
    return device.compute_capability()
