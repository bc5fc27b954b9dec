"""Rows are divided by their sums, and one sum is zero."""

import numpy as np
from case import Case
from numba import cuda, float32


def divided(*, looks_first):
    @cuda.jit
    def divide(a, out):
        row = cuda.grid(1)
        if row < a.shape[0]:
            total = float32(0)
            for column in range(a.shape[1]):
                total += a[row, column]
            for column in range(a.shape[1]):
                if looks_first and total == 0:
                    out[row, column] = 0
                else:
                    out[row, column] = a[row, column] / total  # finds: TW603

    return divide


def arguments(rng):
    a = rng.integers(1, 9, (40, 5)).astype(np.float32)
    a[7] = 0
    return a, np.zeros((40, 5), np.float32)


def reference(a, out):
    total = a.sum(axis=1, keepdims=True)
    return {1: a / np.where(total == 0, 1, total)}


CASES = (
    Case("divided_by_zero", divided(looks_first=False), 2, 32, arguments, defective=True),
    Case("looked_first", divided(looks_first=True), 2, 32, arguments, reference, rtol=1e-6),
)
