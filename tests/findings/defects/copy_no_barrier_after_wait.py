"""Each thread waits for its own copies, and reads at once what others have copied."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_pipeline.h>

extern "C" __global__ void no_barrier(const float *x, float *out) {
    __shared__ float tile[128];
    __pipeline_memcpy_async(&tile[threadIdx.x], &x[threadIdx.x], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[threadIdx.x] = tile[127 - threadIdx.x];  // finds: TW306
}

extern "C" __global__ void own_elements(const float *x, float *out) {
    __shared__ float tile[128];
    __pipeline_memcpy_async(&tile[127 - threadIdx.x], &x[127 - threadIdx.x], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[threadIdx.x] = tile[127 - threadIdx.x];
}

extern "C" __global__ void barrier(const float *x, float *out) {
    __shared__ float tile[128];
    __pipeline_memcpy_async(&tile[threadIdx.x], &x[threadIdx.x], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = tile[127 - threadIdx.x];
}
"""


def arguments(rng):
    return rng.standard_normal(128).astype(np.float32), np.zeros(128, np.float32)


def reference(x, out):
    return {1: x[::-1]}


CASES = (
    Case("copy_no_barrier", cuda_cpp(__file__, SOURCE, "no_barrier"), 1, 128, arguments, defective=True),
    Case("copy_own_elements", cuda_cpp(__file__, SOURCE, "own_elements"), 1, 128, arguments, reference),
    Case("copy_barrier", cuda_cpp(__file__, SOURCE, "barrier"), 1, 128, arguments, reference),
)
