"""The wait leaves the group in flight whose sums are used next."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "products.cuh"

__global__ void one_late(float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    const unsigned long long matrix = ones(tile);
    float d[4] = {}, e[4] = {};
    FENCE;
    asm volatile(PRODUCT : SUMS(d) : "l"(matrix));
    COMMIT;
    asm volatile(PRODUCT : SUMS(e) : "l"(matrix));
    COMMIT;
    WAIT(1);
    out[threadIdx.x] = e[0] * 2;  // finds: TW413
    WAIT(0);
    out[threadIdx.x] += d[0];
}

__global__ void in_order(float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    const unsigned long long matrix = ones(tile);
    float d[4] = {}, e[4] = {};
    FENCE;
    asm volatile(PRODUCT : SUMS(d) : "l"(matrix));
    COMMIT;
    asm volatile(PRODUCT : SUMS(e) : "l"(matrix));
    COMMIT;
    WAIT(1);
    out[threadIdx.x] = d[0];
    WAIT(0);
    out[threadIdx.x] += e[0];
}
"""


def arguments(rng):
    return (np.zeros(128, np.float32),)


def reference(out):
    return {0: np.full(128, 32.0, np.float32)}


CASES = (
    Case("one_late", cuda_cpp(__file__, SOURCE, "one_late"), 1, 128, arguments, defective=True),
    Case("in_order", cuda_cpp(__file__, SOURCE, "in_order"), 1, 128, arguments, reference),
)
