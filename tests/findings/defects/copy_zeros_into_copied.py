"""The tile is cleared after the copies are issued: zeros and copied bytes arrive in any order."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_pipeline.h>

extern "C" __global__ void clears_behind(const float *x, float *out, int n) {
    __shared__ float tile[64];
    const int i = threadIdx.x;
    if (i < n) __pipeline_memcpy_async(&tile[i], &x[i], 4);
    tile[63 - i] = 0;  // finds: TW306
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[i] = tile[i];
}

extern "C" __global__ void clears_before(const float *x, float *out, int n) {
    __shared__ float tile[64];
    const int i = threadIdx.x;
    tile[63 - i] = 0;
    __syncthreads();
    if (i < n) __pipeline_memcpy_async(&tile[i], &x[i], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[i] = tile[i];
}
"""
N = 40


def arguments(rng):
    return rng.standard_normal(N).astype(np.float32), np.zeros(64, np.float32), N


def reference(x, out, n):
    return {1: np.concatenate([x, np.zeros(64 - n, np.float32)])}


CASES = (
    Case("copy_clears_behind", cuda_cpp(__file__, SOURCE, "clears_behind"), 1, 64, arguments, defective=True),
    Case("copy_clears_before", cuda_cpp(__file__, SOURCE, "clears_before"), 1, 64, arguments, reference),
)
