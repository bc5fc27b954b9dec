"""Row and column swapped in an index: right for square matrices, a row overrun for tall ones."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def takes_it_for_square(a, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        own = a[row, column]
        other = a[column, row]  # finds: TW107
        out[row, column] = own - other


@cuda.jit
def looks_first(a, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        own = a[row, column]
        other = a[column, row] if row < a.shape[1] else 0
        out[row, column] = own - other


def arguments(rng):
    return rng.integers(-99, 99, (32, 24)).astype(np.int32), np.zeros((32, 24), np.int32)


def reference(a, out):
    return {1: a - np.pad(a[:24].T, ((0, 8), (0, 0)))}


CASES = (
    Case("swapped_axes", takes_it_for_square, (2, 2), (16, 16), arguments, defective=True),
    Case("swapped_axes_guarded", looks_first, (2, 2), (16, 16), arguments, reference),
)
