"""The sums of a warpgroup's product are used before the wait."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "products.cuh"

__global__ void early(float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    const unsigned long long matrix = ones(tile);
    float d[4] = {};
    FENCE;
    asm volatile(PRODUCT : SUMS(d) : "l"(matrix));
    COMMIT;
    out[threadIdx.x] = d[0] * 2;  // finds: TW413
    WAIT(0);
}

__global__ void awaited(float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    const unsigned long long matrix = ones(tile);
    float d[4] = {};
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
    Case("early", cuda_cpp(__file__, SOURCE, "early"), 1, 128, arguments, defective=True),
    Case("awaited", cuda_cpp(__file__, SOURCE, "awaited"), 1, 128, arguments, reference),
)
