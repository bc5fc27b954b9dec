"""Grid-stride loops in two dimensions with far fewer threads than elements, in place."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
template <typename T>
__global__ void grid_stride(T *a, T factor, long long rows, long long columns, long long pitch) {
    for (long long y = blockIdx.y * blockDim.y + threadIdx.y; y < rows; y += gridDim.y * blockDim.y) {
        for (long long x = blockIdx.x * blockDim.x + threadIdx.x; x < columns; x += gridDim.x * blockDim.x) {
            a[y * pitch + x] = factor * a[y * pitch + x] + T(x);
        }
    }
}
"""


def arguments(rng):
    return rng.integers(-99, 99, (23, 70)).astype(np.float64)[:, :51], 3.0, 23, 51, 70


def reference(a, factor, rows, columns, pitch):
    return {0: 3 * a + np.arange(51)}


KERNEL = cuda_cpp(__file__, SOURCE, "grid_stride<double>")
CASES = (Case("grid_stride", KERNEL, (2, 3), (16, 2), arguments, reference),)
