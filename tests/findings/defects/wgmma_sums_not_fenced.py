"""The sums that a warpgroup's product adds to are set without a fence."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "products.cuh"

__global__ void unfenced(float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    const unsigned long long matrix = ones(tile);
    float d[4] = {};
    for (int i = 0; i < 4; i++)
        d[i] = out[threadIdx.x] * i;
    asm volatile(PRODUCT : SUMS(d) : "l"(matrix));  // finds: TW413
    COMMIT;
    WAIT(0);
    out[threadIdx.x] = d[0];
}

__global__ void fenced(float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    const unsigned long long matrix = ones(tile);
    float d[4] = {};
    for (int i = 0; i < 4; i++)
        d[i] = out[threadIdx.x] * i;
    FENCE;
    asm volatile(PRODUCT : SUMS(d) : "l"(matrix));
    COMMIT;
    WAIT(0);
    out[threadIdx.x] = d[0];
}
"""


def arguments(rng):
    return (np.zeros(128, np.float32),)


def reference(out):
    return {0: np.full(128, 16.0, np.float32)}


CASES = (
    Case("unfenced", cuda_cpp(__file__, SOURCE, "unfenced"), 1, 128, arguments, defective=True),
    Case("fenced", cuda_cpp(__file__, SOURCE, "fenced"), 1, 128, arguments, reference),
)
