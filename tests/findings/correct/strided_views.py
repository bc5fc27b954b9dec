"""Arrays of any strides: a slice with gaps, one that runs backwards, and one in column-major order."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def strided_views(a, b, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] - b[row, column]


def arguments(rng):
    a = rng.integers(-99, 99, (24, 41)).astype(np.float32)[::2, 1::3]
    b = np.asfortranarray(rng.integers(-99, 99, (12, 14)).astype(np.float32))
    return a, b, np.zeros((12, 28), np.float32)[::-1, ::-2]


def reference(a, b, out):
    return {2: a - b}


CASES = (Case("strided_views", strided_views, (2, 2), (8, 8), arguments, reference),)
