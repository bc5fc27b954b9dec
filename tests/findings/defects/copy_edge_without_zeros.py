"""At the edge the copy is left out, and nothing writes zeros in its place."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_pipeline.h>

extern "C" __global__ void left_out(const float4 *x, float *out, int n) {
    __shared__ float4 tile[64];
    const int i = threadIdx.x;
    if (i < n) __pipeline_memcpy_async(&tile[i], &x[i], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    const float4 v = tile[63 - i];  // finds: TW202
    out[i] = v.x + v.y + v.z + v.w;
}

extern "C" __global__ void zeros(const float4 *x, float *out, int n) {
    __shared__ float4 tile[64];
    const int i = threadIdx.x;
    __pipeline_memcpy_async(&tile[i], &x[i < n ? i : 0], 16, i < n ? 0 : 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    const float4 v = tile[63 - i];
    out[i] = v.x + v.y + v.z + v.w;
}
"""
N = 50


def arguments(rng):
    return rng.integers(1, 9, (N, 4)).astype(np.float32), np.zeros(64, np.float32), N


def reference(x, out, n):
    return {1: np.concatenate([x.sum(axis=1), np.zeros(64 - n, np.float32)])[::-1]}


CASES = (
    Case("copy_left_out", cuda_cpp(__file__, SOURCE, "left_out"), 1, 64, arguments, defective=True),
    Case("copy_zeros", cuda_cpp(__file__, SOURCE, "zeros"), 1, 64, arguments, reference),
)
