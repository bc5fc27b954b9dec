"""x and y swapped in a flat index: right for square matrices, past the end of wide ones."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void takes_it_for_square(const int *a, int *out, int rows, int columns) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < columns && y < rows) {
        const int own = a[y * columns + x];
        const int other = a[x * columns + y];  // finds: TW101
        out[y * columns + x] = own - other;
    }
}

__global__ void looks_first(const int *a, int *out, int rows, int columns) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < columns && y < rows) {
        const int own = a[y * columns + x];
        const int other = x < rows ? a[x * columns + y] : 0;
        out[y * columns + x] = own - other;
    }
}
"""


def arguments(rng):
    return rng.integers(-99, 99, (13, 21)).astype(np.int32), np.zeros((13, 21), np.int32), 13, 21


def reference(a, out, rows, columns):
    return {1: a - np.pad(a[:, :13].T, ((0, 0), (0, 8)))}


CASES = (
    Case(
        "swapped_index", cuda_cpp(__file__, SOURCE, "takes_it_for_square"), (2, 1), (16, 16), arguments, defective=True
    ),
    Case("swapped_index_guarded", cuda_cpp(__file__, SOURCE, "looks_first"), (2, 1), (16, 16), arguments, reference),
)
