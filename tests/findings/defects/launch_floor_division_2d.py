"""A grid of two dimensions from floor division: the last rows and columns belong to no block."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void table(int *out, int rows, int columns) {  // finds: TW501
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < columns && y < rows) {
        out[y * columns + x] = (x + 1) * (y + 1);
    }
}
"""


def arguments(rng):
    return np.zeros((20, 37), np.int32), 20, 37


def reference(out, rows, columns):
    return {0: np.outer(np.arange(1, 21), np.arange(1, 38))}


KERNEL = cuda_cpp(__file__, SOURCE, "table")
CASES = (
    Case("floor_division_2d", KERNEL, (37 // 8, 20 // 8), (8, 8), arguments, defective=True),
    Case("rounded_up_2d", KERNEL, (-(-37 // 8), -(-20 // 8)), (8, 8), arguments, reference),
)
