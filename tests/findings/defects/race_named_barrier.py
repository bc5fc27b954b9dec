"""A named barrier that does not cover its readers: the third warp reads without having been there."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__device__ void meet(int threads) { asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory"); }

__global__ void two_of_three(const int *x, int *out) {
    __shared__ int tile[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
        tile[lane] = x[lane];  // finds: TW301
        meet(64);
    } else {
        if (warp == 1) {
            meet(64);
        }
        out[threadIdx.x - 32] = tile[lane] + warp;
    }
}

__global__ void all_three(const int *x, int *out) {
    __shared__ int tile[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
        tile[lane] = x[lane];
        meet(96);
    } else {
        meet(96);
        out[threadIdx.x - 32] = tile[lane] + warp;
    }
}
"""


def arguments(rng):
    return rng.integers(1, 99, 32).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: np.concatenate([x + 1, x + 2])}


CASES = (
    Case("barrier_of_two", cuda_cpp(__file__, SOURCE, "two_of_three"), 1, 96, arguments, defective=True),
    Case("barrier_of_three", cuda_cpp(__file__, SOURCE, "all_three"), 1, 96, arguments, reference),
)
