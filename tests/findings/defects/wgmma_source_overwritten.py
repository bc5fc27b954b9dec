"""A barrier orders stores behind a product's instruction, but not behind its wait: it may still be reading."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "products.cuh"

__global__ void overwritten_early(float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    const unsigned long long matrix = ones(tile);
    float d[4] = {};
    FENCE;
    asm volatile(PRODUCT : SUMS(d) : "l"(matrix) : "memory");
    COMMIT;
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * 16; i += 128)
        tile[i] = 0;  // finds: TW307
    WAIT(0);
    out[threadIdx.x] = d[0];
}

__global__ void overwritten_behind(float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    const unsigned long long matrix = ones(tile);
    float d[4] = {};
    FENCE;
    asm volatile(PRODUCT : SUMS(d) : "l"(matrix) : "memory");
    COMMIT;
    WAIT(0);
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * 16; i += 128)
        tile[i] = 0;
    out[threadIdx.x] = d[0];
}
"""


def arguments(rng):
    return (np.zeros(128, np.float32),)


def reference(out):
    return {0: np.full(128, 16.0, np.float32)}


CASES = (
    Case("overwritten_early", cuda_cpp(__file__, SOURCE, "overwritten_early"), 1, 128, arguments, defective=True),
    Case("overwritten_behind", cuda_cpp(__file__, SOURCE, "overwritten_behind"), 1, 128, arguments, reference),
)
