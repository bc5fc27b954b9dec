"""Transposition straight from global memory to global memory."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def transpose_naive(a, out):
    column, row = cuda.grid(2)
    if row < a.shape[0] and column < a.shape[1]:
        out[column, row] = a[row, column]


def arguments(rng):
    return rng.random((37, 21)), np.zeros((21, 37))


def reference(a, out):
    return {1: a.T}


CASES = (Case("transpose_naive", transpose_naive, (2, 3), (16, 16), arguments, reference, unwritten=(1,)),)
