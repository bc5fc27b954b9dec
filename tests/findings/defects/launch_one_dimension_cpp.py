"""A kernel of rows and columns launched with one dimension, beside one that numbers its threads through."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void by_row(float *image, int rows, int columns) {  // finds: TW503
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) {
        image[row * columns + column] = row + column;
    }
}
"""
RANKS = r"""
__global__ void by_rank(float *image, int rows, int columns) {
    const int width = gridDim.x * blockDim.x;
    const int first = (blockIdx.y * blockDim.y + threadIdx.y) * width + blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < rows * columns; i += width * gridDim.y * blockDim.y) {
        image[i] = i / columns + i % columns;
    }
}
"""


def arguments(rng):
    return np.zeros((20, 30), np.float32), 20, 30


def reference(image, rows, columns):
    return {0: np.add.outer(np.arange(rows), np.arange(columns))}


ROWS = cuda_cpp(__file__, SOURCE, "by_row")
CASES = (
    Case("rows_by_one_dimension", ROWS, 2, 64, arguments, defective=True),
    Case("rows_by_two_dimensions", ROWS, (2, 5), (16, 4), arguments, reference),
    Case("ranks", cuda_cpp(__file__, RANKS, "by_rank"), 2, 64, arguments, reference),
)
