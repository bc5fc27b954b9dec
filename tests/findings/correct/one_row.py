"""A kernel of two dimensions on arrays of one row, launched with one extent in y: nothing is left out."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def one_row(a, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] + row


def arguments(rng):
    return rng.integers(-99, 99, (1, 100)).astype(np.int32), np.zeros((1, 100), np.int32)


def reference(a, out):
    return {1: a}


CASES = (Case("one_row", one_row, (4, 1), (32, 1), arguments, reference, unwritten=(1,)),)
