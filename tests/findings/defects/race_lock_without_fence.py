"""A lock without fences: the next holder may read what the last one has not stored yet."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def no_fences(x, lock, total):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        total[0] += x[cuda.blockIdx.x]  # finds: TW303
        cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def fences(x, lock, total):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        total[0] += x[cuda.blockIdx.x]
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


def arguments(rng):
    return rng.integers(1, 99, 6), np.zeros(1, np.int32), np.zeros(1, np.int64)


def reference(x, lock, total):
    return {1: lock, 2: [x.sum()]}


CASES = (
    Case("lock_without_fence", no_fences, 6, 32, arguments, defective=True),
    Case("lock_with_fence", fences, 6, 32, arguments, reference),
)
