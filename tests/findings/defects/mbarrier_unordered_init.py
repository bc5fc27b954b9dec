"""Other warps arrive at an mbarrier without a barrier behind its initialisation."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cstdint>

__device__ unsigned at(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }

__device__ void init(uint64_t *bar, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}

__global__ void used_at_once(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    tile[t] = x[t];
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at(&bar)) : "memory");  // finds: TW406
    asm volatile("{.reg .pred p; w: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra w;}"  // finds: TW406
                 ::"r"(at(&bar)) : "memory");
    out[t] = tile[63 - t];
}

__global__ void used_behind_a_barrier(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    tile[t] = x[t];
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at(&bar)) : "memory");
    asm volatile("{.reg .pred p; w: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra w; }"
                 ::"r"(at(&bar)) : "memory");
    out[t] = tile[63 - t];
}
"""


def arguments(rng):
    return rng.integers(1, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: x[::-1]}


CASES = (
    Case("used_at_once", cuda_cpp(__file__, SOURCE, "used_at_once"), 1, 64, arguments, defective=True),
    Case("used_behind_a_barrier", cuda_cpp(__file__, SOURCE, "used_behind_a_barrier"), 1, 64, arguments, reference),
)
