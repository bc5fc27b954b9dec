"""A stencil in place: a block reads its neighbour block's edge, which that block may have overwritten."""

import numpy as np
from case import Case
from numba import cuda, int32

BLOCK = 32
WITH_HALO = BLOCK + 2


@cuda.jit
def sums_of_three(x, out):
    tile = cuda.shared.array(WITH_HALO, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t + 1] = x[i]
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else int32(0)
        tile[BLOCK + 1] = x[i + BLOCK] if i + BLOCK < x.size else int32(0)
    cuda.syncthreads()
    out[i] = tile[t] + tile[t + 1] + tile[t + 2]  # finds: TW303


def in_place(rng):
    x = rng.integers(1, 99, 4 * BLOCK).astype(np.int32)
    return x, x


def to_another(rng):
    x, _ = in_place(rng)
    return x, np.zeros_like(x)


def reference(x, out):
    return {1: np.convolve(x, [1, 1, 1], "same")}


CASES = (
    Case("halo_in_place", sums_of_three, 4, BLOCK, in_place, defective=True),
    Case("halo_to_another", sums_of_three, 4, BLOCK, to_another, reference),
)
