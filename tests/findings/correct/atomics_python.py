"""Every atomic that Python offers, on one word each that all threads share."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def atomics_python(x, words, extrema, counter):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(words, 0, x[i])
        cuda.atomic.sub(words, 1, x[i])
        cuda.atomic.or_(words, 2, x[i])
        cuda.atomic.and_(words, 3, x[i])
        cuda.atomic.xor(words, 4, x[i])
        cuda.atomic.max(extrema, 0, float(x[i]))
        cuda.atomic.min(extrema, 1, float(x[i]))
        cuda.atomic.inc(counter, 0, 1000)


def arguments(rng):
    x = rng.integers(0, 2**20, 100).astype(np.int32)
    return x, np.array([0, 0, 0, -1, 0], np.int32), np.array([-1.0, 1e9]), np.zeros(1, np.uint32)


def reference(x, words, extrema, counter):
    bits = (np.bitwise_or.reduce(x), np.bitwise_and.reduce(x), np.bitwise_xor.reduce(x))
    return {1: [x.sum(), -x.sum(), *bits], 2: [x.max(), x.min()], 3: [100]}


CASES = (Case("atomics_python", atomics_python, 4, 32, arguments, reference),)
