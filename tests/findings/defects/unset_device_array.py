"""An array that `device_array` left unset is added to, as if it held zeros."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def adds(x, out):
    i = cuda.grid(1)
    if i < x.size:
        for k in range(3):
            out[i] += x[i] * k  # finds: TW201


@cuda.jit
def sets(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 0
        for k in range(3):
            out[i] += x[i] * k


def arguments(rng):
    return rng.integers(-99, 99, 100), np.zeros(100, np.int64)


def reference(x, out):
    return {1: 3 * x}


CASES = (
    Case("device_array_added_to", adds, 4, 32, arguments, unwritten=(1,), defective=True),
    Case("device_array_set", sets, 4, 32, arguments, reference, unwritten=(1,)),
)
