"""Shared words that hand a value to a warp each are used again without a barrier after they were read."""

import numpy as np
from case import Case
from numba import cuda, int32


def handed_on(*, barrier):
    @cuda.jit
    def hand_on(x, out):
        shared = cuda.shared.array(2, int32)
        t = cuda.threadIdx.x
        total = 0
        for step in range(x.shape[0]):
            if barrier:
                cuda.syncthreads()
            if t < 2:
                shared[t] = x[step] + t  # finds: TW301
            cuda.syncthreads()
            total += shared[t // 32]
        out[t] = total

    return hand_on


def arguments(rng):
    return rng.integers(1, 99, 5).astype(np.int32), np.zeros(64, np.int64)


def reference(x, out):
    return {1: np.repeat([x.sum(), x.sum() + 5], 32)}


CASES = (
    Case("broadcast_used_again", handed_on(barrier=False), 1, 64, arguments, defective=True),
    Case("broadcast_after_a_barrier", handed_on(barrier=True), 1, 64, arguments, reference),
)
