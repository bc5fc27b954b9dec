"""The shared tile has no room for its halo: the last threads write and read past it."""

import numpy as np
from case import Case
from numba import cuda, float32

BLOCK = 64
WITH_HALO = BLOCK + 2


def sums_of_two(elements):
    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array(elements, float32)
        t = cuda.threadIdx.x
        tile[t + 1] = x[t]  # finds: TW103
        if t == 0:
            tile[0] = 0
        cuda.syncthreads()
        out[t] = tile[t] + tile[t + 1]  # finds: TW103

    return kernel


def arguments(rng):
    return rng.integers(-9, 9, BLOCK).astype(np.float32), np.zeros(BLOCK, np.float32)


def reference(x, out):
    return {1: x + np.concatenate([[0], x[:-1]])}


CASES = (
    Case("shared_too_small", sums_of_two(BLOCK), 1, BLOCK, arguments, defective=True),
    Case("shared_large_enough", sums_of_two(WITH_HALO), 1, BLOCK, arguments, reference),
)
