"""Warps multiply what others may not have stored yet."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "products.cuh"

__device__ float product(const unsigned short *tile) {
    float d[4] = {};
    FENCE;
    asm volatile(PRODUCT : SUMS(d) : "l"(at(tile)) : "memory");
    COMMIT;
    WAIT(0);
    return d[0];
}

__global__ void at_once(const unsigned short *x, float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    for (int i = threadIdx.x; i < 64 * 16; i += 128)
        tile[i] = x[i];  // finds: TW307
    FENCE_PROXY;
    out[threadIdx.x] = product(tile);
}

__global__ void together(const unsigned short *x, float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    for (int i = threadIdx.x; i < 64 * 16; i += 128)
        tile[i] = x[i];
    FENCE_PROXY;
    __syncthreads();
    out[threadIdx.x] = product(tile);
}
"""


def arguments(rng):
    return np.ones(64 * 16, np.float16).view(np.uint16), np.zeros(128, np.float32)


def reference(x, out):
    return {1: np.full(128, 16.0, np.float32)}


CASES = (
    Case("at_once", cuda_cpp(__file__, SOURCE, "at_once"), 1, 128, arguments, defective=True),
    Case("together", cuda_cpp(__file__, SOURCE, "together"), 1, 128, arguments, reference),
)
