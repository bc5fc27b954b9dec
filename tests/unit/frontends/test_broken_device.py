"""A failed launch breaks its device; launches with memory of their own neither break the installed one nor ask it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda

import tilewright as tw
from tilewright.errors import KernelError, MemoryAccessError
from tilewright.simt import Memory

X = np.arange(4, dtype=np.float32)


@cuda.jit
def doubled(x, far):
    i = cuda.grid(1)
    x[i + far] *= 2


def launched(x: Any, far: int) -> None:
    tw.simt.launch(doubled, 1, 4, (x, far))


def checked(x: Any, far: int) -> None:
    found = {one.code for one in tw.check(doubled, 1, 4, (x, far))}
    assert found == ({"TW101"} if far else set())


def profiled(x: Any, far: int) -> None:
    tw.profile(doubled, 1, 4, (x, far))


@pytest.mark.parametrize("own", [launched, checked, profiled])
def test_a_launch_with_its_own_memory_breaks_no_device_and_runs_on_a_broken_one(own: Callable[..., None]) -> None:
    with tw.simulated_gpu("h100"):
        try:
            own(X.copy(), 1 << 40)
        except MemoryAccessError:
            assert own is not checked, "check reports what a launch raises"
        there = cuda.to_device(X)
        doubled[1, 4](there, 0)
        with pytest.raises(KernelError):
            doubled[1, 4](there, 1 << 40)
        with pytest.raises(Exception, match="an earlier launch failed"):
            doubled[1, 4](there, 0)
        x = X.copy()
        own(x, 0)
        assert own is checked or x.tolist() == [0, 2, 4, 6]


def test_memory_of_the_caller_is_as_the_failed_launch_left_it() -> None:
    memory = Memory()
    x = memory.array(X)
    with pytest.raises(MemoryAccessError):
        tw.simt.launch(doubled, 1, 4, (x, 1 << 40), memory=memory)
    assert x.to_host().tolist() == X.tolist()
    tw.simt.launch(doubled, 1, 4, (x, 0), memory=memory)
    assert x.to_host().tolist() == [0, 2, 4, 6]
