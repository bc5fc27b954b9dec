"""A warp's sum after some of its lanes have returned: the mask still names them."""

import numpy as np
from case import Case, numbers
from numba import cuda, int32

FULL = 0xFFFFFFFF


@cuda.jit
def some_have_left(x, sums):
    i = cuda.grid(1)
    if i >= x.size:
        return
    total = x[i]
    total += cuda.shfl_down_sync(FULL, total, 16)  # finds: TW404
    sums[i] = total


@cuda.jit
def all_have_stayed(x, sums):
    i = cuda.grid(1)
    total = x[i] if i < x.size else int32(0)
    total += cuda.shfl_down_sync(FULL, total, 16)
    if i < x.size:
        sums[i] = total


def reference(x, sums):
    rows = np.pad(x, (0, 14)).reshape(2, 32)
    moved = np.concatenate([rows[:, 16:], rows[:, 16:]], axis=1)
    return {1: (rows + moved).ravel()[:50]}


CASES = (
    Case("mask_of_exited_lanes", some_have_left, 1, 64, numbers(50), defective=True),
    Case("mask_of_all_lanes", all_have_stayed, 1, 64, numbers(50), reference),
)
