"""The barrier is inside the guard: threads past the end skip it and leave."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void inside_the_guard(const float *x, float *out, int n) {
    __shared__ float tile[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (i < n) {
        tile[t] = x[i];
        __syncthreads();  // finds: TW402
        out[i] = tile[t] - tile[t > 0 ? t - 1 : 0];
    }
}

__global__ void after_the_guard(const float *x, float *out, int n) {
    __shared__ float tile[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (i < n) {
        tile[t] = x[i];
    }
    __syncthreads();
    if (i < n) {
        out[i] = tile[t] - tile[t > 0 ? t - 1 : 0];
    }
}
"""


def arguments(rng):
    return rng.integers(1, 99, 150).astype(np.float32), np.zeros(150, np.float32), 150


def reference(x, out, n):
    before = np.roll(x, 1)
    before[::64] = x[::64]
    return {1: x - before}


CASES = (
    Case("barrier_in_guard", cuda_cpp(__file__, SOURCE, "inside_the_guard"), 3, 64, arguments, defective=True),
    Case("barrier_after_guard", cuda_cpp(__file__, SOURCE, "after_the_guard"), 3, 64, arguments, reference),
)
