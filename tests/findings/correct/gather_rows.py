"""Rows gathered by an index, some never, some often; the grid strides over rows and a block over columns."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def gather_rows(table, rows, out):
    for i in range(cuda.blockIdx.x, rows.size, cuda.gridDim.x):
        for column in range(cuda.threadIdx.x, table.shape[1], cuda.blockDim.x):
            out[i, column] = table[rows[i], column]


def arguments(rng):
    return rng.random((30, 45)), rng.integers(0, 30, 17), np.zeros((17, 45))


def reference(table, rows, out):
    return {2: table[rows]}


CASES = (Case("gather_rows", gather_rows, 5, 32, arguments, reference, unwritten=(2,)),)
