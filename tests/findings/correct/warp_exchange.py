"""Lanes of a warp exchange values through shared memory, ordered by syncwarp alone; no barrier of the block."""

import numpy as np
from case import Case
from numba import cuda, int32

WARPS = 4


@cuda.jit
def warp_exchange(x, out):
    rows = cuda.shared.array((WARPS, 32), int32)
    t = cuda.threadIdx.x
    lane = t % 32
    warp = t // 32
    rows[warp, lane] = x[t]
    cuda.syncwarp()
    half = 16
    while half > 0:
        if lane < half:
            rows[warp, lane] += rows[warp, lane + half]
        cuda.syncwarp()
        half //= 2
    out[t] = rows[warp, 0] * 100 + lane


def arguments(rng):
    return rng.integers(-99, 99, 128).astype(np.int32), np.zeros(128, np.int32)


def reference(x, out):
    return {1: np.repeat(x.reshape(4, 32).sum(axis=1), 32) * 100 + np.tile(np.arange(32), 4)}


CASES = (Case("warp_exchange", warp_exchange, 1, 32 * WARPS, arguments, reference, unwritten=(1,)),)
