"""The row follows x, but the grid is made for columns in x: the rows end where the columns should."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void rows_by_x_of_a_wide_grid(const int *a, int *out, int rows, int columns) {  // finds: TW501
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const int column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        out[row * columns + column] = 2 * a[row * columns + column];
}

__global__ void columns_by_x_of_it(const int *a, int *out, int rows, int columns) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        out[row * columns + column] = 2 * a[row * columns + column];
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 96 * 64).astype(np.int32), np.zeros(96 * 64, np.int32), 96, 64


def reference(a, out, rows, columns):
    return {1: 2 * a}


CASES = (
    Case(
        "rows_by_x_of_a_wide_grid",
        cuda_cpp(__file__, SOURCE, "rows_by_x_of_a_wide_grid"),
        (4, 12),
        (16, 8),
        arguments,
        defective=True,
    ),
    Case(
        "columns_by_x_of_it", cuda_cpp(__file__, SOURCE, "columns_by_x_of_it"), (4, 12), (16, 8), arguments, reference
    ),
)
