"""Of two buffers the one is filled again whose product the wait leaves in flight; every thread waits for others."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "products.cuh"

__device__ float both(unsigned short (*tiles)[64 * 16], const int again) {
    const unsigned long long first = ones(tiles[0]), second = ones(tiles[1]);
    float d[4] = {}, e[4] = {};
    FENCE;
    asm volatile(PRODUCT : SUMS(d) : "l"(first) : "memory");
    COMMIT;
    asm volatile(PRODUCT : SUMS(e) : "l"(second) : "memory");
    COMMIT;
    WAIT(1);
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * 16; i += 128)
        tiles[again][i] = 0;  // finds: TW307
    __syncthreads();
    WAIT(0);
    return d[0] + e[0];
}

__global__ void second_again(float *out) {
    __shared__ alignas(128) unsigned short tiles[2][64 * 16];
    out[threadIdx.x] = both(tiles, 1);
}

__global__ void first_again(float *out) {
    __shared__ alignas(128) unsigned short tiles[2][64 * 16];
    out[threadIdx.x] = both(tiles, 0);
}
"""


def arguments(rng):
    return (np.zeros(128, np.float32),)


def reference(out):
    return {0: np.full(128, 32.0, np.float32)}


CASES = (
    Case("second_again", cuda_cpp(__file__, SOURCE, "second_again"), 1, 128, arguments, defective=True),
    Case("first_again", cuda_cpp(__file__, SOURCE, "first_again"), 1, 128, arguments, reference),
)
