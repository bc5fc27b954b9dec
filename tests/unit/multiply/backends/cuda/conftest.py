"""The simulated GPU that holds arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tilewright as tw


@pytest.fixture(scope="module")
def gpu() -> Iterator[Any]:
    with tw.simulated_gpu("a100") as device:
        yield device
