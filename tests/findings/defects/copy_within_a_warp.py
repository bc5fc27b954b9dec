"""A warp's lanes wait for their own copies, and read those of other lanes without `__syncwarp`."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "copies.cuh"

template <bool together>
__global__ void neighbours(const float *x, float *out) {
    COPY_TO_TILE(float, 32, x);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    if (together) __syncwarp();
    out[threadIdx.x] = tile[threadIdx.x ^ 1];  // finds: TW306
}
"""


def arguments(rng):
    return rng.standard_normal(32).astype(np.float32), np.zeros(32, np.float32)


def reference(x, out):
    return {1: x.reshape(16, 2)[:, ::-1].ravel()}


CASES = (
    Case("copy_in_step", cuda_cpp(__file__, SOURCE, "neighbours<false>"), 1, 32, arguments, defective=True),
    Case("copy_together", cuda_cpp(__file__, SOURCE, "neighbours<true>"), 1, 32, arguments, reference),
)
