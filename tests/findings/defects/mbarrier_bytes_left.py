"""More bytes are expected of the other threads than they tell of, and nobody waits for them."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cstdint>

__device__ unsigned at(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }

__device__ void init(uint64_t *bar, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}

__device__ void arrive(uint64_t *bar) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at(bar)) : "memory");
}

__global__ void too_many_bytes(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    tile[t] = x[t];
    if (t == 0)
        asm volatile("mbarrier.expect_tx.shared.b64 [%0], 320;" ::"r"(at(&bar)) : "memory");  // finds: TW409
    __syncthreads();
    if (t < 16)
        asm volatile("mbarrier.complete_tx.relaxed.cta.shared.b64 [%0], 16;" ::"r"(at(&bar)) : "memory");
    arrive(&bar);
    __syncthreads();
    out[t] = tile[63 - t];
}

__global__ void as_many_bytes(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    tile[t] = x[t];
    if (t == 0)
        asm volatile("mbarrier.expect_tx.shared.b64 [%0], 256;" ::"r"(at(&bar)) : "memory");
    __syncthreads();
    if (t < 16)
        asm volatile("mbarrier.complete_tx.relaxed.cta.shared.b64 [%0], 16;" ::"r"(at(&bar)) : "memory");
    arrive(&bar);
    __syncthreads();
    out[t] = tile[63 - t];
}
"""


def arguments(rng):
    return rng.integers(1, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: x[::-1]}


CASES = (
    Case("too_many_bytes", cuda_cpp(__file__, SOURCE, "too_many_bytes"), 1, 64, arguments, defective=True),
    Case("as_many_bytes", cuda_cpp(__file__, SOURCE, "as_many_bytes"), 1, 64, arguments, reference),
)
