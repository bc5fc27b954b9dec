"""The grid comes from floor division: the last elements belong to no block."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def squares(out):  # finds: TW501
    i = cuda.grid(1)
    if i < out.size:
        out[i] = i * i


def arguments(rng):
    return (np.zeros(100, np.int64),)


def reference(out):
    return {0: np.arange(100) ** 2}


CASES = (
    Case("floor_division", squares, 100 // 32, 32, arguments, defective=True),
    Case("rounded_up", squares, (100 + 31) // 32, 32, arguments, reference),
)
