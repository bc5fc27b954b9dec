"""Row and column swapped in an index: right for square matrices, a row overrun for tall ones."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def swapped(a, b, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] - b[row, column]  # finds: TW107


@cuda.jit
def in_order(a, b, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] - b[column, row]


def arguments(rng):
    return (
        rng.integers(-99, 99, (24, 32)).astype(np.int32),
        rng.integers(-99, 99, (32, 24)).astype(np.int32),
        np.zeros((24, 32), np.int32),
    )


def arguments_of_swapped(rng):
    a, b, out = arguments(rng)
    return a, np.concatenate([b[:24], b[:1]]), out


def reference(a, b, out):
    return {2: a - b.T}


CASES = (
    Case("swapped_axes", swapped, (2, 2), (16, 16), arguments_of_swapped, defective=True),
    Case("in_order", in_order, (2, 2), (16, 16), arguments, reference),
)
