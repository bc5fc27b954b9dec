"""A flag that many threads of many blocks set, all to the same value, without atomics."""

import numpy as np
from case import Case
from numba import cuda, int32


@cuda.jit
def same_value_flag(x, limit, found, block_found):
    any_here = cuda.shared.array(1, int32)
    i = cuda.grid(1)
    if cuda.threadIdx.x == 0:
        any_here[0] = 0
    cuda.syncthreads()
    if i < x.size and x[i] > limit:
        found[0] = 1
        any_here[0] = 1
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        block_found[cuda.blockIdx.x] = any_here[0]


def arguments(rng):
    x = rng.integers(0, 100, 320).astype(np.int32)
    x[64:128] = 0
    return x, 80, np.zeros(1, np.int32), np.zeros(5, np.int32)


def reference(x, limit, found, block_found):
    return {2: [1], 3: (x.reshape(5, 64) > limit).any(axis=1)}


CASES = (Case("same_value_flag", same_value_flag, 5, 64, arguments, reference, unwritten=(3,)),)
