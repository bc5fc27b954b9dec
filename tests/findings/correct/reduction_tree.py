"""Reduction: each block halves its elements in shared memory until one sum is left."""

import numpy as np
from case import Case
from numba import cuda, float32

BLOCK = 128


@cuda.jit
def reduction_tree(x, sums):
    partial = cuda.shared.array(BLOCK, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    partial[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    half = BLOCK // 2
    while half > 0:
        if t < half:
            partial[t] += partial[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = partial[0]


def arguments(rng):
    return rng.integers(-9, 10, 500).astype(np.float32), np.zeros(4, np.float32)


def reference(x, sums):
    return {1: np.pad(x, (0, 12)).reshape(4, BLOCK).sum(axis=1)}


CASES = (Case("reduction_tree", reduction_tree, 4, BLOCK, arguments, reference, unwritten=(1,)),)
