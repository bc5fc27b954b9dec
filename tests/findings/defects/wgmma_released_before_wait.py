"""Consumers give a buffer back before they have waited for the product that reads it."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "products.cuh"

__device__ inline void arrive(unsigned long long *free) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(free)) : "memory");
}

__device__ inline void await(unsigned long long *free) {
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }"
                 :: "r"((unsigned)__cvta_generic_to_shared(free)) : "memory");
}

// Four warps multiply; a fifth fills the buffer again.
__device__ inline void run(unsigned short *tile, unsigned long long *free, float *out, bool early) {
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 128;" :: "r"((unsigned)__cvta_generic_to_shared(free)));
    for (int i = threadIdx.x; i < 64 * 16; i += 160)
        tile[i] = 0x3c00;
    FENCE_PROXY;
    __syncthreads();
    if (threadIdx.x >= 128) {
        await(free);
        for (int i = threadIdx.x - 128; i < 64 * 16; i += 32)
            tile[i] = 0;  // finds: TW307
        return;
    }
    float d[4] = {};
    FENCE;
    asm volatile(PRODUCT : SUMS(d) : "l"(at(tile)) : "memory");
    COMMIT;
    if (early)
        arrive(free);
    WAIT(0);
    if (!early)
        arrive(free);
    out[threadIdx.x] = d[0];
}

__global__ void released_early(float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    __shared__ unsigned long long free;
    run(tile, &free, out, true);
}

__global__ void released_behind(float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    __shared__ unsigned long long free;
    run(tile, &free, out, false);
}
"""


def arguments(rng):
    return (np.zeros(128, np.float32),)


def reference(out):
    return {0: np.full(128, 16.0, np.float32)}


CASES = (
    Case("released_early", cuda_cpp(__file__, SOURCE, "released_early"), 1, 160, arguments, defective=True),
    Case("released_behind", cuda_cpp(__file__, SOURCE, "released_behind"), 1, 160, arguments, reference),
)
