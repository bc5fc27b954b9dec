"""A histogram whose bins are fewer than the values that come: atomics beside the counts, shared and global."""

import numpy as np
from case import Case
from numba import cuda, int32

BINS = 16


@cuda.jit
def any_value(x, counts):
    bins = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    if t < BINS:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, x[t], 1)  # finds: TW103
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(counts, 2 * t, bins[t])  # finds: TW101


@cuda.jit
def values_that_fit(x, counts):
    bins = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    if t < BINS:
        bins[t] = 0
    cuda.syncthreads()
    if x[t] < BINS:
        cuda.atomic.add(bins, x[t], 1)
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(counts, t, bins[t])


def arguments(rng):
    return np.arange(64) % (BINS + 3), np.zeros(BINS, np.int32)


def reference(x, counts):
    return {1: np.bincount(x)[:BINS]}


CASES = (
    Case("atomic_past_the_bins", any_value, 1, 64, arguments, defective=True),
    Case("atomic_on_the_bins", values_that_fit, 1, 64, arguments, reference),
)
