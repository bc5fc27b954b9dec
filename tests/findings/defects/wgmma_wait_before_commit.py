"""A warpgroup waits for groups before its product is in one."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "products.cuh"

__global__ void uncommitted(float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    const unsigned long long matrix = ones(tile);
    float d[4] = {};
    FENCE;
    asm volatile(PRODUCT : SUMS(d) : "l"(matrix));
    WAIT(0);
    COMMIT;
    out[threadIdx.x] = d[0] * 3;  // finds: TW413
}

__global__ void committed(float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    const unsigned long long matrix = ones(tile);
    float d[4] = {};
    FENCE;
    for (int i = 0; i < 3; i++) {
        asm volatile(PRODUCT : SUMS(d) : "l"(matrix));
        COMMIT;
    }
    WAIT(0);
    out[threadIdx.x] = d[0];
}
"""


def arguments(rng):
    return (np.zeros(128, np.float32),)


def reference(out):
    return {0: np.full(128, 48.0, np.float32)}


CASES = (
    Case("uncommitted", cuda_cpp(__file__, SOURCE, "uncommitted"), 1, 128, arguments, defective=True),
    Case("committed", cuda_cpp(__file__, SOURCE, "committed"), 1, 128, arguments, reference),
)
