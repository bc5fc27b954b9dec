"""Bitonic sort of a block's keys in shared memory."""

import numpy as np
from case import Case
from numba import cuda, int32

KEYS = 256


@cuda.jit
def bitonic_sort(keys):
    shared = cuda.shared.array(KEYS, int32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * KEYS
    shared[t] = keys[first + t]
    cuda.syncthreads()
    size = 2
    while size <= KEYS:
        distance = size // 2
        while distance > 0:
            other = t ^ distance
            if other > t:
                ascending = (t & size) == 0
                a = shared[t]
                b = shared[other]
                if (a > b) == ascending:
                    shared[t] = b
                    shared[other] = a
            cuda.syncthreads()
            distance //= 2
        size *= 2
    keys[first + t] = shared[t]


def arguments(rng):
    return (rng.integers(-1000, 1000, 2 * KEYS).astype(np.int32),)


def reference(keys):
    return {0: np.sort(keys.reshape(2, KEYS), axis=1).ravel()}


CASES = (Case("bitonic_sort", bitonic_sort, 2, KEYS, arguments, reference),)
