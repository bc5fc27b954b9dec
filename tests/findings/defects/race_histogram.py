"""A shared histogram without atomics: warps that count the same bin lose each other's counts."""

import numpy as np
from case import Case
from numba import cuda, int32

BINS = 32


def counted(*, atomic):
    @cuda.jit
    def count(x, counts):
        t = cuda.threadIdx.x
        bins = cuda.shared.array(BINS, int32)
        for b in range(t, BINS, cuda.blockDim.x):
            bins[b] = 0
        cuda.syncthreads()
        if atomic:
            cuda.atomic.add(bins, x[t], 1)
        else:
            bins[x[t]] += 1  # finds: TW301
        cuda.syncthreads()
        if t < BINS:
            counts[t] = bins[t]

    return count


def arguments(rng):
    """Keys that differ within each warp, so that warps alone race."""
    return np.concatenate([rng.permutation(32) for _ in range(4)]), np.zeros(BINS, np.int32)


def reference(x, counts):
    return {1: np.bincount(x)}


CASES = (
    Case("histogram_plain", counted(atomic=False), 1, 128, arguments, defective=True),
    Case("histogram_atomic", counted(atomic=True), 1, 128, arguments, reference),
)
