"""Arrays with more room than elements: a count says how many there are, and the rest is left alone."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def capacity(x, count, out):
    i = cuda.grid(1)
    if i < count:
        out[i] = 3 * x[i]


def arguments(rng):
    return rng.integers(-99, 99, 128).astype(np.int32), 70, np.full(128, -1, np.int32)


def reference(x, count, out):
    return {2: np.concatenate([3 * x[:70], out[70:]])}


CASES = (Case("capacity", capacity, 3, 32, arguments, reference),)
