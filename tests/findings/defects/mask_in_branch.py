"""A shuffle of the whole warp inside a branch that half of its lanes take."""

import numpy as np
from case import Case
from numba import cuda

FULL = 0xFFFFFFFF


@cuda.jit
def whole_warp_in_branch(x, out):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x % 32
    value = x[i]
    if lane < 16:
        value += cuda.shfl_xor_sync(FULL, value, 1)  # finds: TW404
    out[i] = value


@cuda.jit
def half_warp_in_branch(x, out):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x % 32
    value = x[i]
    if lane < 16:
        value += cuda.shfl_xor_sync(0xFFFF, value, 1)
    out[i] = value


def arguments(rng):
    return rng.integers(1, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    i = np.arange(64)
    return {1: x + np.where(i % 32 < 16, x[i ^ 1], 0)}


CASES = (
    Case("whole_mask_in_branch", whole_warp_in_branch, 1, 64, arguments, defective=True),
    Case("half_mask_in_branch", half_warp_in_branch, 1, 64, arguments, reference),
)
