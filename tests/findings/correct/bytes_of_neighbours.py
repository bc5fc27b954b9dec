"""Neighbouring threads write neighbouring bytes, in shared and in global memory; no word belongs to one thread."""

import numpy as np
from case import Case
from numba import cuda, int8

BLOCK = 96


@cuda.jit
def bytes_of_neighbours(x, out, halves):
    tile = cuda.shared.array(BLOCK, int8)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = x[i]
    cuda.syncthreads()
    out[i] = tile[BLOCK - 1 - t]
    if i % 2 == 0:
        halves[i // 2] = tile[t] * 2
    cuda.syncthreads()
    tile[BLOCK - 1 - t] = 0


def arguments(rng):
    x = rng.integers(-50, 50, 2 * BLOCK).astype(np.int8)
    return x, np.zeros(2 * BLOCK, np.int8), np.zeros(BLOCK, np.int16)


def reference(x, out, halves):
    return {1: x.reshape(2, BLOCK)[:, ::-1].ravel(), 2: x[::2].astype(np.int16) * 2}


CASES = (Case("bytes_of_neighbours", bytes_of_neighbours, 2, BLOCK, arguments, reference, unwritten=(1, 2)),)
