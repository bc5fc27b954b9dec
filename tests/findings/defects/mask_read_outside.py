"""A sum by shuffles among the few lanes of a mask, with shifts that reach beyond them.

Eight lanes have the sums of eight warps. The shifts of a whole warp read from lanes that take no part; the first of
them is told.
"""

import numpy as np
from case import Case
from numba import cuda, int32

FULL = 0xFFFFFFFF


@cuda.jit
def sum_from_outside(x, out):
    t = cuda.threadIdx.x
    mask = cuda.ballot_sync(FULL, t < 8)
    if t < 8:
        total = x[t]
        total += cuda.shfl_down_sync(mask, total, 16)  # finds: TW405
        total += cuda.shfl_down_sync(mask, total, 8)
        total += cuda.shfl_down_sync(mask, total, 4)
        total += cuda.shfl_down_sync(mask, total, 2)
        total += cuda.shfl_down_sync(mask, total, 1)
        if t == 0:
            out[0] = total


@cuda.jit
def sum_from_inside(x, out):
    t = cuda.threadIdx.x
    mask = cuda.ballot_sync(FULL, t < 8)
    if t < 8:
        total = x[t]
        total += cuda.shfl_down_sync(mask, total, 4)
        total += cuda.shfl_down_sync(mask, total, 2)
        total += cuda.shfl_down_sync(mask, total, 1)
        if t == 0:
            out[0] = total


@cuda.jit
def sum_of_all(x, out):
    t = cuda.threadIdx.x
    total = x[t] if t < 8 else int32(0)
    for shift in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(FULL, total, shift)
    if t == 0:
        out[0] = total


def arguments(rng):
    return rng.integers(1, 99, 8).astype(np.int32), np.zeros(1, np.int32)


def reference(x, out):
    return {1: x.sum(dtype=np.int32)}


CASES = (
    Case("sum_from_outside", sum_from_outside, 1, 32, arguments, defective=True),
    Case("sum_from_inside", sum_from_inside, 1, 32, arguments, reference),
    Case("sum_of_all", sum_of_all, 1, 32, arguments, reference),
)
