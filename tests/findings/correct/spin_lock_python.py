"""Mutual exclusion in Python: the first thread of each block takes a lock by compare-and-swap."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def spin_lock_python(x, lock, mean):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        mean[0] += x[cuda.blockIdx.x]
        mean[1] += 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


def arguments(rng):
    return rng.integers(-999, 999, 12).astype(np.int32), np.zeros(1, np.int32), np.zeros(2, np.int32)


def reference(x, lock, mean):
    return {1: lock, 2: [x.sum(), 12]}


CASES = (Case("spin_lock_python", spin_lock_python, 12, 32, arguments, reference),)
