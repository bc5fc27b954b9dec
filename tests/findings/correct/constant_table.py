"""A table in constant memory from Python, read by an index of the data's."""

import numpy as np
from case import Case
from numba import cuda

TABLE = np.arange(10, 26, dtype=np.int32) ** 2


@cuda.jit
def constant_table(x, out):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    if i < x.size:
        out[i] = table[x[i] & 15]


def arguments(rng):
    return rng.integers(0, 1000, 150).astype(np.int32), np.zeros(150, np.int32)


def reference(x, out):
    return {1: TABLE[x & 15]}


CASES = (Case("constant_table", constant_table, 3, 64, arguments, reference, unwritten=(1,)),)
