"""A shuffle of the whole warp inside a branch that half of its lanes take."""

import numpy as np
from case import Case, numbers
from numba import cuda


def in_branch(mask):
    @cuda.jit
    def neighbours(x, out):
        i = cuda.grid(1)
        lane = cuda.threadIdx.x % 32
        value = x[i]
        if lane < 16:
            value += cuda.shfl_xor_sync(mask, value, 1)  # finds: TW404
        out[i] = value

    return neighbours


def reference(x, out):
    i = np.arange(64)
    return {1: x + np.where(i % 32 < 16, x[i ^ 1], 0)}


CASES = (
    Case("whole_mask_in_branch", in_branch(0xFFFFFFFF), 1, 64, numbers(64), defective=True),
    Case("half_mask_in_branch", in_branch(0xFFFF), 1, 64, numbers(64), reference),
)
