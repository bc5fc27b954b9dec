"""A launch of many short blocks can be stopped between them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tilewright import catalogue, simt
from tilewright.errors import LimitError
from tilewright.instruments import Coalescing


def test_a_limit_of_seconds_holds_although_no_warp_runs_long() -> None:
    record = catalogue.find("global_memory")
    a = np.ones((1024, 1024), np.int32)
    c = np.zeros_like(a)
    shape = record.launch_rule(*a.shape, a.shape[1])
    start = time.perf_counter()
    with pytest.raises(LimitError, match="global_memory"):
        simt.launch(
            record.program("int32"),
            shape.grid,
            shape.block,
            record.arguments(a, a, c),
            instruments=[Coalescing()],
            limits=simt.Limits(seconds=0.1),
        )
    assert time.perf_counter() - start < 10
