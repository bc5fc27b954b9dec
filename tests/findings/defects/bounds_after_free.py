"""A kernel is launched with an array whose memory has been given back."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def total_of(x, totals):
    i = cuda.grid(1)
    if i < totals.size:
        totals[i] = x[x.size - 1 - i]  # finds: TW105


def arguments(rng):
    return rng.integers(1, 99, 50_000), np.zeros(64, np.int64)


def reference(x, totals):
    return {1: x[:-65:-1]}


CASES = (
    Case("after_free", total_of, 2, 32, arguments, freed=(0,), unwritten=(1,), defective=True),
    Case("before_free", total_of, 2, 32, arguments, reference, unwritten=(1,)),
)
