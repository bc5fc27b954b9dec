"""An mbarrier that expects every thread of the block, of which the first does not arrive."""

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

__global__ void all_but_the_first(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    tile[t] = x[t];
    if (t > 0) arrive(&bar);
    asm volatile("{.reg .pred p; w: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra w;}"  // finds: TW408
                 ::"r"(at(&bar)) : "memory");
    out[t] = tile[63 - t];
}

__global__ void every_one(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    tile[t] = x[t];
    arrive(&bar);
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
    Case("all_but_the_first", cuda_cpp(__file__, SOURCE, "all_but_the_first"), 1, 64, arguments, defective=True),
    Case("every_one", cuda_cpp(__file__, SOURCE, "every_one"), 1, 64, arguments, reference),
)
