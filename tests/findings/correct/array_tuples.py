"""A tuple of arrays and one of numbers as arguments, chosen by constants and unrolled by the compiler."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def array_tuples(arrays, factors, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = factors[0] * arrays[0][i] + factors[1] * arrays[1][out.size - 1 - i]


def arguments(rng):
    arrays = rng.integers(-99, 99, 70).astype(np.int64), rng.integers(-99, 99, 70).astype(np.int64)
    return arrays, (3, -2), np.zeros(70, np.int64)


def reference(arrays, factors, out):
    return {2: 3 * arrays[0] - 2 * arrays[1][::-1]}


CASES = (Case("array_tuples", array_tuples, 3, 32, arguments, reference, unwritten=(2,)),)
