"""What the hardware tests share; `tests/conftest.py` reports them as not run where there is no GPU."""

from __future__ import annotations

import pytest

from tilewright.backends.cuda import device


@pytest.fixture
def compute_capability() -> tuple[int, int]:
    """The GPU's compute capability."""
    return device.compute_capability()
