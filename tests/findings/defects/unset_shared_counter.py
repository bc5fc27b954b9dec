"""Shared counters that nobody set to zero."""

import numpy as np
from case import Case
from numba import cuda, int32

BINS = 16


@cuda.jit
def never_set(x, counts):
    bins = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    cuda.atomic.add(bins, x[cuda.grid(1)], 1)  # finds: TW202
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(counts, t, bins[t])


@cuda.jit
def set_first(x, counts):
    bins = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    if t < BINS:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, x[cuda.grid(1)], 1)
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(counts, t, bins[t])


def arguments(rng):
    return np.arange(128) * 5 % BINS, np.zeros(BINS, np.int32)


def reference(x, counts):
    return {1: np.bincount(x)}


CASES = (
    Case("shared_counter_never_set", never_set, 2, 64, arguments, defective=True),
    Case("shared_counter_set", set_first, 2, 64, arguments, reference),
)
