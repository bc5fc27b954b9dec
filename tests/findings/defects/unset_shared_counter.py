"""Shared counters that nobody set to zero."""

import numpy as np
from case import Case
from numba import cuda, int32

BINS = 16


def counted(*, zeroed):
    @cuda.jit
    def count(x, counts):
        bins = cuda.shared.array(BINS, int32)
        t = cuda.threadIdx.x
        if zeroed:
            if t < BINS:
                bins[t] = 0
            cuda.syncthreads()
        cuda.atomic.add(bins, x[cuda.grid(1)], 1)  # finds: TW202
        cuda.syncthreads()
        if t < BINS:
            cuda.atomic.add(counts, t, bins[t])

    return count


def arguments(rng):
    return np.arange(128) * 5 % BINS, np.zeros(BINS, np.int32)


def reference(x, counts):
    return {1: np.bincount(x)}


CASES = (
    Case("shared_counter_never_set", counted(zeroed=False), 2, 64, arguments, defective=True),
    Case("shared_counter_set", counted(zeroed=True), 2, 64, arguments, reference),
)
