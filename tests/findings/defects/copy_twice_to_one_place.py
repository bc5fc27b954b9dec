"""Two copies of one group write the same halo element: threads at a tile's ends copy it both."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_pipeline.h>

template <int width>
__device__ void halo(const float *x, float *out) {
    __shared__ float tile[66];
    const int i = threadIdx.x;
    __pipeline_memcpy_async(&tile[i], &x[i], 4);
    if (i < width) __pipeline_memcpy_async(&tile[66 - width + i], &x[70 - width + i], 4);  // finds: TW306
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[i] = tile[i] + tile[i + 1] + tile[i + 2];
}

extern "C" __global__ void overlapping(const float *x, float *out) { halo<6>(x, out); }
extern "C" __global__ void apart(const float *x, float *out) { halo<2>(x, out); }
"""


def arguments(rng):
    return rng.integers(0, 9, 70).astype(np.float32), np.zeros(64, np.float32)


def reference(x, out):
    tile = np.concatenate([x[:64], x[68:70]])
    return {1: tile[:64] + tile[1:65] + tile[2:66]}


CASES = (
    Case("copy_overlapping", cuda_cpp(__file__, SOURCE, "overlapping"), 1, 64, arguments, defective=True),
    Case("copy_apart", cuda_cpp(__file__, SOURCE, "apart"), 1, 64, arguments, reference),
)
