"""Threads that count for two arrive at an mbarrier of an odd number."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cstdint>

__device__ unsigned at(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }

__device__ void init(uint64_t *bar, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}

__device__ void wait(uint64_t *bar, unsigned parity) {
    asm volatile("{.reg .pred p; w: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra w; }"
                 ::"r"(at(bar)), "r"(parity) : "memory");
}

__global__ void counts_for_two(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 127);
    __syncthreads();
    tile[t] = x[t];
    asm volatile("mbarrier.arrive.shared.b64 _, [%0], 2;" ::"r"(at(&bar)) : "memory");  // finds: TW408
    wait(&bar, 0);
    out[t] = tile[63 - t];
}

__global__ void counts_are_even(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 128);
    __syncthreads();
    tile[t] = x[t];
    asm volatile("mbarrier.arrive.shared.b64 _, [%0], 2;" ::"r"(at(&bar)) : "memory");
    wait(&bar, 0);
    out[t] = tile[63 - t];
}
"""


def arguments(rng):
    return rng.integers(1, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: x[::-1]}


CASES = (
    Case("counts_for_two", cuda_cpp(__file__, SOURCE, "counts_for_two"), 1, 64, arguments, defective=True),
    Case("counts_are_even", cuda_cpp(__file__, SOURCE, "counts_are_even"), 1, 64, arguments, reference),
)
