"""Kernels of one dimension that read their y and z indices: ranks, one thread of a block, rows with a grid's stride."""

import numpy as np
from case import Case, cuda_cpp

RANK = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void by_rank(int *out, int n) {
    const unsigned long long i = cg::this_grid().thread_rank();
    if (i < n) {
        out[i] = static_cast<int>(i) + threadIdx.y + blockDim.z - 1;
    }
}
"""
SOURCE = r"""
__global__ void by_hand(int *out, int n) {
    __shared__ int first;
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int thread = threadIdx.z * (blockDim.x * blockDim.y) + threadIdx.y * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        first = block * blockDim.x * blockDim.y * blockDim.z;
    }
    __syncthreads();
    if (first + thread < n) {
        out[first + thread] = first + thread;
    }
}

__global__ void by_rows(int *out, int n) {
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < n / 50; row += gridDim.y * blockDim.y) {
        for (int column = blockIdx.x * blockDim.x + threadIdx.x; column < 50; column += gridDim.x * blockDim.x) {
            out[row * 50 + column] = row * 50 + column;
        }
    }
}
"""


def arguments(rng):
    return np.zeros(150, np.int32), 150


def reference(out, n):
    return {0: np.arange(n)}


CASES = tuple(
    Case(name, cuda_cpp(__file__, source, name), 3, 64, arguments, reference, unwritten=(0,))
    for source, name in ((RANK, "by_rank"), (SOURCE, "by_hand"), (SOURCE, "by_rows"))
)
