"""Halves: neighbouring threads write neighbouring halves of words, pairs are added at once, the sum is a float."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_fp16.h>

__global__ void half_precision(const __half *x, __half *out, float *sums) {
    __shared__ __half2 pairs[32];
    __half *tile = reinterpret_cast<__half *>(pairs);
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    tile[t] = __hadd(x[i], x[i]);
    __syncthreads();
    out[i] = tile[63 - t];
    if (t == 0) {
        float sum = 0.0f;
        for (int j = 0; j < 32; ++j) {
            const float2 pair = __half22float2(__hadd2(pairs[j], pairs[j]));
            sum += pair.x + pair.y;
        }
        sums[blockIdx.x] = sum;
    }
}
"""


def arguments(rng):
    x = rng.integers(-99, 99, 128).astype(np.float16)
    return x, np.zeros(128, np.float16), np.zeros(2, np.float32)


def reference(x, out, sums):
    double = 2 * x.reshape(2, 64).astype(np.float32)
    return {1: double[:, ::-1].ravel(), 2: 2 * double.sum(axis=1)}


KERNEL = cuda_cpp(__file__, SOURCE, "half_precision")
CASES = (Case("half_precision", KERNEL, 2, 64, arguments, reference, unwritten=(1, 2)),)
