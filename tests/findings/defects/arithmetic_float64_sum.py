"""A sum that starts as a Python float: a product of float32 matrices is added up in float64."""

import numpy as np
from case import Case
from numba import cuda, float32


@cuda.jit
def python_float(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]  # finds: TW601
        c[row, column] = total


@cuda.jit
def own_width(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


def arguments(rng):
    return (
        rng.integers(-9, 9, (9, 6)).astype(np.float32),
        rng.integers(-9, 9, (6, 10)).astype(np.float32),
        np.zeros((9, 10), np.float32),
    )


def reference(a, b, c):
    return {2: a @ b}


CASES = (
    Case("float64_sum", python_float, (2, 2), (8, 8), arguments, defective=True),
    Case("float32_sum", own_width, (2, 2), (8, 8), arguments, reference),
)
