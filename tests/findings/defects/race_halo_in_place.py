"""A stencil in place: a block reads its neighbour block's edge, which that block may have overwritten."""

import numpy as np
from case import Case
from numba import cuda, int32

BLOCK = 32
WITH_HALO = BLOCK + 2


@cuda.jit
def in_place(x):
    tile = cuda.shared.array(WITH_HALO, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t + 1] = x[i]
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else int32(0)
        tile[BLOCK + 1] = x[i + BLOCK] if i + BLOCK < x.size else int32(0)
    cuda.syncthreads()
    x[i] = tile[t] + tile[t + 1] + tile[t + 2]  # finds: TW303


@cuda.jit
def to_another(x, out):
    tile = cuda.shared.array(WITH_HALO, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t + 1] = x[i]
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else int32(0)
        tile[BLOCK + 1] = x[i + BLOCK] if i + BLOCK < x.size else int32(0)
    cuda.syncthreads()
    out[i] = tile[t] + tile[t + 1] + tile[t + 2]


def argument(rng):
    return (rng.integers(1, 99, 4 * BLOCK).astype(np.int32),)


def arguments(rng):
    return *argument(rng), np.zeros(4 * BLOCK, np.int32)


def reference(x, out):
    return {1: np.convolve(x, [1, 1, 1], "same")}


CASES = (
    Case("halo_in_place", in_place, 4, BLOCK, argument, defective=True),
    Case("halo_to_another", to_another, 4, BLOCK, arguments, reference),
)
