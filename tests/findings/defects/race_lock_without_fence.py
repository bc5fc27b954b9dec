"""A lock without fences: the next holder may read what the last one has not stored yet."""

import numpy as np
from case import Case
from numba import cuda


def locked(*, fences):
    @cuda.jit
    def add(x, lock, total):
        if cuda.threadIdx.x == 0:
            while cuda.atomic.cas(lock, 0, 0, 1) != 0:
                pass
            if fences:
                cuda.threadfence()
            total[0] += x[cuda.blockIdx.x]  # finds: TW303
            if fences:
                cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)

    return add


def arguments(rng):
    return rng.integers(1, 99, 6), np.zeros(1, np.int32), np.zeros(1, np.int64)


def reference(x, lock, total):
    return {1: lock, 2: [x.sum()]}


CASES = (
    Case("lock_without_fence", locked(fences=False), 6, 32, arguments, defective=True),
    Case("lock_with_fence", locked(fences=True), 6, 32, arguments, reference),
)
