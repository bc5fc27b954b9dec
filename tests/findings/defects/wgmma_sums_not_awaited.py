"""The sums of a warpgroup's product are used before the wait."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#define PRODUCT "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;"
#define SUMS(d) "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define COMMIT asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")

// A matrix of ones, as a descriptor has it: atoms of 8 lines of 16 bytes.
__device__ unsigned long long ones(unsigned short *place) {
    for (int i = threadIdx.x; i < 64 * 16; i += 128)
        place[i] = 0x3c00;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    return (unsigned)__cvta_generic_to_shared(place) >> 4 | 8ull << 16 | 16ull << 32;
}

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
