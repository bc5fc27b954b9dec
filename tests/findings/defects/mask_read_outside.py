"""A sum by shuffles among the few lanes of a mask, with shifts that reach beyond them.

Eight lanes have the sums of eight warps. The shifts of a whole warp read from lanes that take no part; the first of
them is found.
"""

import numpy as np
from case import Case
from numba import cuda, int32

FULL = 0xFFFFFFFF


def sum_by(shifts):
    @cuda.jit
    def sum_of_eight(x, out):
        t = cuda.threadIdx.x
        mask = cuda.ballot_sync(FULL, t < 8)
        if t < 8:
            total = x[t]
            for shift in shifts:
                total += cuda.shfl_down_sync(mask, total, shift)  # finds: TW405
            if t == 0:
                out[0] = total

    return sum_of_eight


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
    Case("sum_from_outside", sum_by((16, 8, 4, 2, 1)), 1, 32, arguments, defective=True),
    Case("sum_from_inside", sum_by((4, 2, 1)), 1, 32, arguments, reference),
    Case("sum_of_all", sum_of_all, 1, 32, arguments, reference),
)
