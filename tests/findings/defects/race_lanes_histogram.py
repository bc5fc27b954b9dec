"""A histogram of one warp without atomics: lanes that count the same bin lose each other's counts."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void lanes_plain(const int *x, int *counts) {
    __shared__ int bins[8];
    if (threadIdx.x < 8) {
        bins[threadIdx.x] = 0;
    }
    __syncwarp();
    bins[x[threadIdx.x]] += 1;  // finds: TW304
    __syncwarp();
    if (threadIdx.x < 8) {
        counts[threadIdx.x] = bins[threadIdx.x];
    }
}

__global__ void lanes_atomic(const int *x, int *counts) {
    __shared__ int bins[8];
    if (threadIdx.x < 8) {
        bins[threadIdx.x] = 0;
    }
    __syncwarp();
    atomicAdd(&bins[x[threadIdx.x]], 1);
    __syncwarp();
    if (threadIdx.x < 8) {
        counts[threadIdx.x] = bins[threadIdx.x];
    }
}
"""


def arguments(rng):
    return np.arange(32, dtype=np.int32) % 7, np.zeros(8, np.int32)


def reference(x, counts):
    return {1: np.bincount(x, minlength=8)}


CASES = (
    Case("lanes_plain", cuda_cpp(__file__, SOURCE, "lanes_plain"), 1, 32, arguments, defective=True),
    Case("lanes_atomic", cuda_cpp(__file__, SOURCE, "lanes_atomic"), 1, 32, arguments, reference),
)
