"""Counts in a local array that was never set to zero."""

import numpy as np
from case import Case
from numba import cuda, int32


@cuda.jit
def never_set(rows, most):
    counts = cuda.local.array(4, int32)
    i = cuda.grid(1)
    if i < rows.shape[0]:
        for j in range(rows.shape[1]):
            counts[rows[i, j]] += 1  # finds: TW203
        best = 0
        for j in range(rows.shape[1]):
            best = max(best, counts[rows[i, j]])
        most[i] = best


@cuda.jit
def set_first(rows, most):
    counts = cuda.local.array(4, int32)
    i = cuda.grid(1)
    if i < rows.shape[0]:
        for k in range(4):
            counts[k] = 0
        for j in range(rows.shape[1]):
            counts[rows[i, j]] += 1
        best = 0
        for j in range(rows.shape[1]):
            best = max(best, counts[rows[i, j]])
        most[i] = best


def arguments(rng):
    return rng.integers(0, 4, (40, 9)), np.zeros(40, np.int64)


def reference(rows, most):
    return {1: [np.bincount(row).max() for row in rows]}


CASES = (
    Case("local_never_set", never_set, 2, 32, arguments, defective=True),
    Case("local_set", set_first, 2, 32, arguments, reference),
)
