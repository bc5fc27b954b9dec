"""The last steps make no group, so that the wait that leaves one group leaves the last stage in flight."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_pipeline.h>

template <bool always>
__global__ void sums(const float4 *x, float4 *out, int steps) {
    __shared__ float4 stage[3][32];
    const int t = threadIdx.x;
    for (int s = 0; s < 2; ++s) {
        __pipeline_memcpy_async(&stage[s][t], &x[s * 32 + t], 16);
        __pipeline_commit();
    }
    float4 sum = {0, 0, 0, 0};
    for (int s = 0; s < steps; ++s) {
        __pipeline_wait_prior(1);
        const float4 v = stage[s % 3][t];  // finds: TW306
        sum = {sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w};
        if (s + 2 < steps) {
            __pipeline_memcpy_async(&stage[(s + 2) % 3][t], &x[(s + 2) * 32 + t], 16);
            if (!always) __pipeline_commit();
        }
        if (always) __pipeline_commit();
    }
    out[t] = sum;
}
"""
STEPS = 7


def arguments(rng):
    return rng.integers(0, 9, (STEPS * 32, 4)).astype(np.float32), np.zeros((32, 4), np.float32), STEPS


def reference(x, out, steps):
    return {1: x.reshape(steps, 32, 4).sum(axis=0)}


CASES = (
    Case("copy_not_drained", cuda_cpp(__file__, SOURCE, "sums<false>"), 1, 32, arguments, defective=True),
    Case("copy_drained", cuda_cpp(__file__, SOURCE, "sums<true>"), 1, 32, arguments, reference),
)
