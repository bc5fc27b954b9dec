"""The shared tile has no room for its halo: the last threads write and read past it."""

import numpy as np
from case import Case
from numba import cuda, float32

BLOCK = 64
WITH_HALO = BLOCK + 2


@cuda.jit
def too_small(x, out):
    tile = cuda.shared.array(BLOCK, float32)
    t = cuda.threadIdx.x
    tile[t + 1] = x[t]  # finds: TW103
    if t == 0:
        tile[0] = 0
    cuda.syncthreads()
    out[t] = tile[t] + tile[t + 1]  # finds: TW103


@cuda.jit
def large_enough(x, out):
    tile = cuda.shared.array(WITH_HALO, float32)
    t = cuda.threadIdx.x
    tile[t + 1] = x[t]
    if t == 0:
        tile[0] = 0
    cuda.syncthreads()
    out[t] = tile[t] + tile[t + 1]


def arguments(rng):
    return rng.integers(-9, 9, BLOCK).astype(np.float32), np.zeros(BLOCK, np.float32)


def reference(x, out):
    return {1: x + np.concatenate([[0], x[:-1]])}


CASES = (
    Case("shared_too_small", too_small, 1, BLOCK, arguments, defective=True),
    Case("shared_large_enough", large_enough, 1, BLOCK, arguments, reference),
)
