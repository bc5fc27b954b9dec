"""Reduction by atomics: every thread adds to one sum of its block, one thread a block to the sum of all."""

import numpy as np
from case import Case
from numba import cuda, int32


@cuda.jit
def reduction_atomic(x, total):
    block_total = cuda.shared.array(1, int32)
    i = cuda.grid(1)
    if cuda.threadIdx.x == 0:
        block_total[0] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(block_total, 0, x[i])
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(total, 0, block_total[0])


def arguments(rng):
    return rng.integers(-1000, 1000, 400).astype(np.int32), np.array([5], np.int32)


def reference(x, total):
    return {1: total + x.sum()}


CASES = (Case("reduction_atomic", reduction_atomic, 4, 128, arguments, reference),)
