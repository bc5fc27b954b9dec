"""Rows are divided by their sums, and one sum is zero."""

import numpy as np
from case import Case
from numba import cuda, float32


@cuda.jit
def divides(a, out):
    row = cuda.grid(1)
    if row < a.shape[0]:
        total = float32(0)
        for column in range(a.shape[1]):
            total += a[row, column]
        for column in range(a.shape[1]):
            out[row, column] = a[row, column] / total  # finds: TW603


@cuda.jit
def looks_first(a, out):
    row = cuda.grid(1)
    if row < a.shape[0]:
        total = float32(0)
        for column in range(a.shape[1]):
            total += a[row, column]
        for column in range(a.shape[1]):
            out[row, column] = a[row, column] / total if total != 0 else float32(0)


def arguments(rng):
    a = rng.integers(1, 9, (40, 5)).astype(np.float32)
    a[7] = 0
    return a, np.zeros((40, 5), np.float32)


def reference(a, out):
    total = a.sum(axis=1, keepdims=True)
    return {1: a / np.where(total == 0, 1, total)}


CASES = (
    Case("divided_by_zero", divides, 2, 32, arguments, defective=True),
    Case("looked_first", looks_first, 2, 32, arguments, reference, rtol=1e-6),
)
