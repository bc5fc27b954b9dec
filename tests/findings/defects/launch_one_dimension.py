"""A kernel of two dimensions launched with one: it does the first row only."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def negated(a, out):  # finds: TW503
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = -a[row, column]


def arguments(rng):
    return rng.integers(-99, 99, (9, 50)).astype(np.int32), np.zeros((9, 50), np.int32)


def reference(a, out):
    return {1: -a}


CASES = (
    Case("one_dimension", negated, 2, 32, arguments, defective=True),
    Case("two_dimensions", negated, (2, 3), (32, 4), arguments, reference),
)
