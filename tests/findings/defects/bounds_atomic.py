"""A histogram whose bins are fewer than the values that come: atomics beside the counts, shared and global."""

import numpy as np
from case import Case
from numba import cuda, int32

BINS = 16


def counted(*, guarded, step):
    @cuda.jit
    def count(x, counts):
        bins = cuda.shared.array(BINS, int32)
        t = cuda.threadIdx.x
        if t < BINS:
            bins[t] = 0
        cuda.syncthreads()
        if not guarded or x[t] < BINS:
            cuda.atomic.add(bins, x[t], 1)  # finds: TW103
        cuda.syncthreads()
        if t < BINS:
            cuda.atomic.add(counts, step * t, bins[t])  # finds: TW101

    return count


def arguments(rng):
    return np.arange(64) % (BINS + 3), np.zeros(BINS, np.int32)


def reference(x, counts):
    return {1: np.bincount(x)[:BINS]}


CASES = (
    Case("atomic_past_the_bins", counted(guarded=False, step=2), 1, 64, arguments, defective=True),
    Case("atomic_on_the_bins", counted(guarded=True, step=1), 1, 64, arguments, reference),
)
