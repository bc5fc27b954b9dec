"""Lanes read what others of their warp wrote, after a syncwarp that names only one half of it."""

import numpy as np
from case import Case
from numba import cuda, int32


def halves(together):
    @cuda.jit
    def kernel(x, out):
        s = cuda.shared.array(64, int32)
        t = cuda.threadIdx.x
        lane = t % 32
        s[t] = x[t]  # finds: TW304
        if lane < 16:
            cuda.syncwarp(0x0000FFFF)
        else:
            cuda.syncwarp(0xFFFF0000)
        if together:
            half = s[t - lane + (lane ^ 15)]
            cuda.syncwarp()
            s[t] = half
            cuda.syncwarp()
            out[t] = s[t - lane + (lane ^ 16)]
        else:
            out[t] = s[t - lane + 31 - lane]

    return kernel


def arguments(rng):
    return rng.permutation(64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: x.reshape(2, 32)[:, ::-1].ravel()}


CASES = (
    Case("halves_apart", halves(False), 1, 64, arguments, defective=True),
    Case("halves_together", halves(True), 1, 64, arguments, reference),
)
