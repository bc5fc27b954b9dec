"""A pipeline of three stages waits until two groups are left, which leaves the stage that it then reads in flight."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_pipeline.h>

template <int stages, int left>
__device__ void sums(const float4 *x, float *out, int steps) {
    __shared__ float4 stage[stages][64];
    const int t = threadIdx.x;
    for (int s = 0; s < stages - 1; ++s) {
        if (s < steps) __pipeline_memcpy_async(&stage[s][t], &x[s * 64 + t], 16);
        __pipeline_commit();
    }
    float sum = 0;
    for (int s = 0; s < steps; ++s) {
        __pipeline_wait_prior(left);
        __syncthreads();
        const float4 v = stage[s % stages][63 - t];  // finds: TW306
        sum += v.x + v.y + v.z + v.w;
        const int next = s + stages - 1;
        if (next < steps) __pipeline_memcpy_async(&stage[next % stages][t], &x[next * 64 + t], 16);
        __pipeline_commit();
    }
    out[t] = sum;
}

extern "C" __global__ void late(const float4 *x, float *out, int steps) { sums<3, 2>(x, out, steps); }
extern "C" __global__ void two(const float4 *x, float *out, int steps) { sums<2, 0>(x, out, steps); }
extern "C" __global__ void three(const float4 *x, float *out, int steps) { sums<3, 1>(x, out, steps); }
extern "C" __global__ void four(const float4 *x, float *out, int steps) { sums<4, 2>(x, out, steps); }
"""
STEPS = 10


def arguments(rng):
    return rng.integers(0, 9, (STEPS * 64, 4)).astype(np.float32), np.zeros(64, np.float32), STEPS


def reference(x, out, steps):
    return {1: x.reshape(steps, 64, 4).sum(axis=(0, 2))[::-1]}


CASES = (
    Case("copy_one_group_late", cuda_cpp(__file__, SOURCE, "late"), 1, 64, arguments, defective=True),
    *(
        Case(f"copy_{name}", cuda_cpp(__file__, SOURCE, name), 1, 64, arguments, reference)
        for name in ("two", "three", "four")
    ),
)
