"""Sum over a radius of three, from a shared tile with a halo."""

import numpy as np
from case import Case
from numba import cuda, float32

RADIUS = 3
BLOCK = 64
WIDTH = BLOCK + 2 * RADIUS


@cuda.jit
def stencil_1d(x, out):
    tile = cuda.shared.array(WIDTH, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    n = x.size
    tile[t + RADIUS] = x[i] if i < n else float32(0)
    if t < RADIUS:
        left = i - RADIUS
        right = i + BLOCK
        tile[t] = x[left] if left >= 0 else float32(0)
        tile[t + RADIUS + BLOCK] = x[right] if right < n else float32(0)
    cuda.syncthreads()
    if i < n:
        total = float32(0)
        for j in range(2 * RADIUS + 1):
            total += tile[t + j]
        out[i] = total


def arguments(rng):
    return rng.integers(-99, 99, 300).astype(np.float32), np.zeros(300, np.float32)


def reference(x, out):
    return {1: np.convolve(x, np.ones(7, np.float32), "same")}


CASES = (Case("stencil_1d", stencil_1d, 5, BLOCK, arguments, reference, unwritten=(1,)),)
