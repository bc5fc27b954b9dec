"""Sparse matrix (compressed rows) times vector; empty rows, and columns that no row has."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void sparse_vector(const int *starts, const int *columns, const double *values, const double *x, double *y,
                              int rows) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        double sum = 0.0;
        for (int i = starts[row]; i < starts[row + 1]; ++i) {
            sum += values[i] * x[columns[i]];
        }
        y[row] = sum;
    }
}
"""


def arguments(rng):
    counts = rng.integers(0, 6, 100)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    columns = rng.integers(0, 400, starts[-1]).astype(np.int32)
    values = rng.integers(-9, 9, starts[-1]).astype(np.float64)
    return starts, columns, values, rng.integers(-9, 9, 400).astype(np.float64), np.zeros(100), 100


def reference(starts, columns, values, x, y, rows):
    products = np.concatenate([[0], np.cumsum(values * x[columns])])
    return {4: products[starts[1:]] - products[starts[:-1]]}


KERNEL = cuda_cpp(__file__, SOURCE, "sparse_vector")
CASES = (Case("sparse_vector", KERNEL, 4, 32, arguments, reference, unwritten=(4,)),)
