"""Matrix times vector, a warp a row, the vector kept in shared memory."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void matrix_vector(const float *a, const float *x, float *y, int rows, int columns) {
    extern __shared__ float vector[];
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        vector[i] = x[i];
    }
    __syncthreads();
    const int lane = threadIdx.x % 32, warps = gridDim.x * blockDim.x / 32;
    for (int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32; row < rows; row += warps) {
        float sum = 0.0f;
        for (int i = lane; i < columns; i += 32) {
            sum += a[row * columns + i] * vector[i];
        }
        for (int shift = 16; shift > 0; shift /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, shift);
        }
        if (lane == 0) {
            y[row] = sum;
        }
    }
}
"""


def arguments(rng):
    matrix = rng.integers(-9, 9, (13, 75)).astype(np.float32)
    return matrix, rng.integers(-9, 9, 75).astype(np.float32), np.zeros(13, np.float32), 13, 75


def reference(a, x, y, rows, columns):
    return {2: a @ x}


KERNEL = cuda_cpp(__file__, SOURCE, "matrix_vector")
CASES = (Case("matrix_vector", KERNEL, 2, 128, arguments, reference, shared_bytes=300, unwritten=(2,)),)
