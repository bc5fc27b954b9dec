"""A counter that blocks raise by an atomic and look at by a plain load."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def looked_at_plainly(x, count, seen):
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(count, 0, x[cuda.blockIdx.x])  # finds: TW303
        seen[cuda.blockIdx.x] = count[0] > 0


@cuda.jit
def returned_by_the_atomic(x, count, seen):
    if cuda.threadIdx.x == 0:
        before = cuda.atomic.add(count, 0, x[cuda.blockIdx.x])
        seen[cuda.blockIdx.x] = before + x[cuda.blockIdx.x] > 0


def arguments(rng):
    return rng.integers(1, 99, 6), np.zeros(1, np.int64), np.zeros(6, np.int32)


def reference(x, count, seen):
    return {1: [x.sum()], 2: np.ones(6)}


CASES = (
    Case("atomic_and_plain", looked_at_plainly, 6, 32, arguments, defective=True),
    Case("atomic_alone", returned_by_the_atomic, 6, 32, arguments, reference),
)
