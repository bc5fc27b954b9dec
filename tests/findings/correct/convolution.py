"""2-D convolution with a filter in constant memory that the module itself holds."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__constant__ float weights[3][3] = {{1, 2, 1}, {2, 4, 2}, {1, 2, 1}};

__global__ void convolution(const float *image, float *out, int rows, int columns) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < columns && y < rows) {
        float sum = 0.0f;
        for (int dy = -1; dy <= 1; ++dy) {
            for (int dx = -1; dx <= 1; ++dx) {
                const int cx = min(max(x + dx, 0), columns - 1), cy = min(max(y + dy, 0), rows - 1);
                sum += weights[dy + 1][dx + 1] * image[cy * columns + cx];
            }
        }
        out[y * columns + x] = sum / 16.0f;
    }
}
"""


def arguments(rng):
    return rng.integers(0, 256, (19, 33)).astype(np.float32), np.zeros((19, 33), np.float32), 19, 33


def reference(image, out, rows, columns):
    p = np.pad(image, 1, "edge")
    across = p[:, :-2] + 2 * p[:, 1:-1] + p[:, 2:]
    return {1: (across[:-2] + 2 * across[1:-1] + across[2:]) / 16}


KERNEL = cuda_cpp(__file__, SOURCE, "convolution")
CASES = (Case("convolution", KERNEL, (3, 3), (16, 8), arguments, reference, unwritten=(1,)),)
