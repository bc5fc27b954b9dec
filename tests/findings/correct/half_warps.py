"""The two halves of a warp take different branches, each ordered by a syncwarp of its own lanes."""

import numpy as np
from case import Case
from numba import cuda, int32


@cuda.jit
def half_warps(x, out):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    lane = t % 32
    s[t] = x[t]
    if lane < 16:
        for _ in range(3):
            cuda.syncwarp(0x0000FFFF)
            value = s[t - lane + 15 - lane]
            cuda.syncwarp(0x0000FFFF)
            s[t] = value + 1
    else:
        cuda.syncwarp(0xFFFF0000)
        value = s[t - lane + 16 + (lane + 1) % 16]
        cuda.syncwarp(0xFFFF0000)
        s[t] = value * 2
    out[t] = s[t]


def arguments(rng):
    return rng.integers(-99, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    halves = x.reshape(2, 2, 16)
    return {1: np.stack([halves[:, 0, ::-1] + 3, 2 * np.roll(halves[:, 1], -1, axis=1)], axis=1).ravel()}


CASES = (Case("half_warps", half_warps, 1, 64, arguments, reference, unwritten=(1,)),)
