"""A double buffer of which the next copy overwrites the half that slower threads still read."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_pipeline.h>

template <bool barrier>
__global__ void sums(const float *x, float *out, int steps) {
    __shared__ float stage[2][128];
    const int t = threadIdx.x;
    __pipeline_memcpy_async(&stage[0][t], &x[t], 4);
    __pipeline_commit();
    float sum = 0;
    for (int s = 0; s < steps; ++s) {
        if (s + 1 < steps) __pipeline_memcpy_async(&stage[(s + 1) % 2][t], &x[(s + 1) * 128 + t], 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int i = 0; i < 128; i += 16) sum += stage[s % 2][(t + i) % 128];  // finds: TW306
        if (barrier) __syncthreads();
    }
    out[t] = sum;
}
"""
STEPS = 5


def arguments(rng):
    return rng.integers(0, 9, STEPS * 128).astype(np.float32), np.zeros(128, np.float32), STEPS


def reference(x, out, steps):
    tiles = x.reshape(steps, 128).sum(axis=0)
    return {1: sum(np.roll(tiles, -i) for i in range(0, 128, 16))}


CASES = (
    Case("copy_overwritten", cuda_cpp(__file__, SOURCE, "sums<false>"), 1, 128, arguments, defective=True),
    Case("copy_kept", cuda_cpp(__file__, SOURCE, "sums<true>"), 1, 128, arguments, reference),
)
