"""The row follows threadIdx.x: neighbouring lanes touch different rows of a row-major matrix."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def rows_by_x(a, out):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] * 2  # finds: TW702


@cuda.jit
def columns_by_x(a, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] * 2


def arguments(rng):
    return rng.integers(1, 99, (64, 64)).astype(np.int32), np.zeros((64, 64), np.int32)


def reference(a, out):
    return {1: 2 * a}


CASES = (
    Case("rows_by_x", rows_by_x, (2, 8), (32, 8), arguments, defective=True),
    Case("columns_by_x", columns_by_x, (2, 8), (32, 8), arguments, reference),
)
