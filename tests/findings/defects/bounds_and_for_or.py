"""`and` for `or` in the exit guard: threads past one edge only do not leave."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def joined_by_and(a, out):
    column, row = cuda.grid(2)
    if row >= out.shape[0] and column >= out.shape[1]:
        return
    out[row, column] = a[row, column] + 1  # finds: TW101, TW107


@cuda.jit
def joined_by_or(a, out):
    column, row = cuda.grid(2)
    if row >= out.shape[0] or column >= out.shape[1]:
        return
    out[row, column] = a[row, column] + 1


def arguments(rng):
    return rng.integers(-99, 99, (20, 24)).astype(np.int32), np.zeros((20, 24), np.int32)


def reference(a, out):
    return {1: a + 1}


CASES = (
    Case("and_for_or", joined_by_and, (2, 2), (16, 16), arguments, defective=True),
    Case("or", joined_by_or, (2, 2), (16, 16), arguments, reference),
)
