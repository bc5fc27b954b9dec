"""Threads past the end return before the barrier that the rest of their block waits at."""

import numpy as np
from case import Case, numbers
from numba import cuda, int32

BLOCK = 64


@cuda.jit
def returns_early(x, out):
    tile = cuda.shared.array(BLOCK, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i >= x.size:
        return
    tile[t] = x[i]
    cuda.syncthreads()  # finds: TW402
    out[i] = tile[t] + tile[max(t - 1, 0)]


@cuda.jit
def guards_accesses(x, out):
    tile = cuda.shared.array(BLOCK, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < x.size:
        tile[t] = x[i]
    cuda.syncthreads()
    if i < x.size:
        out[i] = tile[t] + tile[max(t - 1, 0)]


def reference(x, out):
    before = np.roll(x, 1)
    before[::BLOCK] = x[::BLOCK]
    return {1: x + before}


CASES = (
    Case("early_return", returns_early, 2, BLOCK, numbers(100), defective=True),
    Case("guarded_accesses", guards_accesses, 2, BLOCK, numbers(100), reference),
)
