"""The wait comes before the commit: it covers groups alone, and the copies are in none yet."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "copies.cuh"

template <bool commits_first>
__global__ void products(const float2 *x, float *out) {
    COPY_TO_TILE(float2, 64, x);
    if (commits_first) __pipeline_commit();
    __pipeline_wait_prior(0);
    if (!commits_first) __pipeline_commit();
    __syncthreads();
    const float2 v = tile[threadIdx.x ^ 33];  // finds: TW306
    out[threadIdx.x] = v.x * v.y;
}
"""


def arguments(rng):
    return rng.integers(0, 9, (64, 2)).astype(np.float32), np.zeros(64, np.float32)


def reference(x, out):
    return {1: x.prod(axis=1)[np.arange(64) ^ 33]}


CASES = (
    Case("copy_waits_first", cuda_cpp(__file__, SOURCE, "products<false>"), 1, 64, arguments, defective=True),
    Case("copy_commits_first", cuda_cpp(__file__, SOURCE, "products<true>"), 1, 64, arguments, reference),
)
