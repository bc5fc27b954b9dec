"""Sixteen bytes are copied from rows of odd length, whose second row begins between two such places."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_pipeline.h>

template <int bytes>
__device__ void rows(const float *x, float *out, int pitch) {
    __shared__ __align__(16) float tile[2][32];
    const int each = bytes / 4, t = threadIdx.x;
    for (int i = t * each; i < 32; i += 8 * each)
        __pipeline_memcpy_async(&tile[threadIdx.y][i], &x[threadIdx.y * pitch + i], bytes);  // finds: TW102
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int i = t; i < 32; i += 8) out[threadIdx.y * 32 + i] = tile[1 - threadIdx.y][i];
}

extern "C" __global__ void sixteen(const float *x, float *out, int pitch) { rows<16>(x, out, pitch); }
extern "C" __global__ void four(const float *x, float *out, int pitch) { rows<4>(x, out, pitch); }
"""


def arguments(rng):
    return rng.integers(1, 9, (2, 33)).astype(np.float32)[:, :32], np.zeros((2, 32), np.float32), 33


def reference(x, out, pitch):
    return {1: x[::-1]}


CASES = (
    Case("copy_sixteen", cuda_cpp(__file__, SOURCE, "sixteen"), 1, (8, 2), arguments, defective=True),
    Case("copy_of_four_bytes", cuda_cpp(__file__, SOURCE, "four"), 1, (8, 2), arguments, reference),
)
