"""Behind a barrier, but before the wait, what an asynchronous copy reads of global memory is overwritten."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_pipeline.h>

template <bool waits>
__global__ void takes(float4 *x, float4 *out) {
    __shared__ float4 tile[64];
    const int t = threadIdx.x;
    __pipeline_memcpy_async(&tile[t], &x[t], 16);
    __pipeline_commit();
    if (waits) __pipeline_wait_prior(0);
    __syncthreads();
    x[63 - t] = make_float4(0, 0, 0, 0);  // finds: TW306
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = tile[63 - t];
}
"""


def arguments(rng):
    return rng.integers(1, 9, (64, 4)).astype(np.float32), np.zeros((64, 4), np.float32)


def reference(x, out):
    return {0: np.zeros_like(x), 1: x[::-1]}


CASES = (
    Case("source_changed", cuda_cpp(__file__, SOURCE, "takes<false>"), 1, 64, arguments, defective=True),
    Case("source_waited_for", cuda_cpp(__file__, SOURCE, "takes<true>"), 1, 64, arguments, reference),
)
