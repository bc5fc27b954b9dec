"""Five-point stencil from a shared tile with a halo; threads leave before nothing that others wait at."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
constexpr int TILE = 16;

__global__ void stencil_2d(const float *in, float *out, int rows, int columns) {
    __shared__ float tile[TILE + 2][TILE + 2];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = blockIdx.x * TILE + tx, y = blockIdx.y * TILE + ty;
    const int thread = ty * TILE + tx;
    for (int cell = thread; cell < (TILE + 2) * (TILE + 2); cell += TILE * TILE) {
        const int cx = cell % (TILE + 2), cy = cell / (TILE + 2);
        const int gx = blockIdx.x * TILE + cx - 1, gy = blockIdx.y * TILE + cy - 1;
        const bool inside = gx >= 0 && gx < columns && gy >= 0 && gy < rows;
        tile[cy][cx] = inside ? in[gy * columns + gx] : 0.0f;
    }
    __syncthreads();
    if (x >= columns || y >= rows) {
        return;
    }
    out[y * columns + x] = tile[ty][tx + 1] + tile[ty + 2][tx + 1] + tile[ty + 1][tx] + tile[ty + 1][tx + 2]
                           - 4.0f * tile[ty + 1][tx + 1];
}
"""


def arguments(rng):
    return rng.integers(-99, 99, (20, 37)).astype(np.float32), np.zeros((20, 37), np.float32), 20, 37


def reference(image, out, rows, columns):
    p = np.pad(image, 1)
    return {1: p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * image}


KERNEL = cuda_cpp(__file__, SOURCE, "stencil_2d")
CASES = (Case("stencil_2d", KERNEL, (3, 2), (16, 16), arguments, reference, unwritten=(1,)),)
