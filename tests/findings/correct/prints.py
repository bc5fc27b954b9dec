"""A kernel that prints some of what it does."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def prints(x, out):
    i = cuda.grid(1)
    if i < x.size:
        if x[i] < 0:
            print("negative at", i, ":", x[i])
        out[i] = abs(x[i])


def arguments(rng):
    return rng.integers(-20, 99, 50), np.zeros(50, np.int64)


def reference(x, out):
    return {1: abs(x)}


CASES = (Case("prints", prints, 2, 32, arguments, reference, unwritten=(1,)),)
