"""x and y swapped: the row follows the grid's x, which was sized for the columns of a wide matrix."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void swapped_grid(const float *a, float *out, int rows, int columns) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    out[row * columns + column] = -a[row * columns + column];  // finds: TW101
}

__global__ void straight_grid(const float *a, float *out, int rows, int columns) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    out[row * columns + column] = -a[row * columns + column];
}
"""


def arguments(rng):
    return rng.random((32, 64), np.float32), np.zeros((32, 64), np.float32), 32, 64


def whole(rng):
    """An input and output of which every element is used before the fault shows."""
    return rng.random((16, 16), np.float32), np.zeros((16, 16), np.float32), 16, 16


def reference(a, out, rows, columns):
    return {1: -a}


CASES = (
    Case("swapped_grid", cuda_cpp(__file__, SOURCE, "swapped_grid"), (2, 1), (16, 16), whole, defective=True),
    Case("straight_grid", cuda_cpp(__file__, SOURCE, "straight_grid"), (4, 2), (16, 16), arguments, reference),
)
