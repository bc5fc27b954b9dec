"""Histogram: each block counts in shared memory by atomics, then adds its counts to the global ones."""

import numpy as np
from case import Case
from numba import cuda, int32

BINS = 50


@cuda.jit
def histogram_shared(values, counts):
    block_counts = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    for b in range(t, BINS, cuda.blockDim.x):
        block_counts[b] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(block_counts, values[i], 1)
    cuda.syncthreads()
    for b in range(t, BINS, cuda.blockDim.x):
        cuda.atomic.add(counts, b, block_counts[b])


def arguments(rng):
    return rng.integers(0, BINS, 1000).astype(np.uint8), np.zeros(BINS, np.int32)


def reference(values, counts):
    return {1: np.bincount(values, minlength=BINS)}


CASES = (Case("histogram_shared", histogram_shared, 4, 64, arguments, reference),)
