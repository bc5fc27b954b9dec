"""A product reads what threads have stored without a fence between the proxies."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#define PRODUCT "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4, 0, 1, 1, 0, 0;"
#define FENCE_PROXY asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

// The sums of ones by ones, of which a descriptor says where they lie: atoms of 8 lines of 16 bytes.
__device__ float product(const unsigned short *ones) {
    const unsigned long long at = (unsigned)__cvta_generic_to_shared(ones) >> 4 | 8ull << 16 | 16ull << 32;
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(PRODUCT  // finds: TW412
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(at) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    return d[0];
}

__global__ void product_without_fence(const unsigned short *x, float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    for (int i = threadIdx.x; i < 64 * 16; i += 128)
        tile[i] = x[i];
    __syncthreads();
    out[threadIdx.x] = product(tile);
}

__global__ void product_with_fence(const unsigned short *x, float *out) {
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
    Case(
        "product_without_fence", cuda_cpp(__file__, SOURCE, "product_without_fence"), 1, 128, arguments, defective=True
    ),
    Case("product_with_fence", cuda_cpp(__file__, SOURCE, "product_with_fence"), 1, 128, arguments, reference),
)
