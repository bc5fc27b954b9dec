"""A loop that awaits the same parity in each round."""

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

__global__ void always_zero(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    int sum = 0;
    for (int round = 0; round < 2; round++) {
        tile[t] = x[t] + round;  // finds: TW301
        arrive(&bar);
        asm volatile("{.reg.pred p;w:mbarrier.try_wait.parity.shared.b64 p,[%0],0; @!p bra w;}"  // finds: TW407, TW408
                     ::"r"(at(&bar)) : "memory");
        sum += tile[63 - t];
        __syncthreads();
    }
    out[t] = sum;
}

__global__ void turned_over(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    int sum = 0;
    for (int round = 0; round < 2; round++) {
        tile[t] = x[t] + round;
        arrive(&bar);
        asm volatile("{.reg .pred p; w: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra w; }"
                     ::"r"(at(&bar)), "r"(round & 1) : "memory");
        sum += tile[63 - t];
        __syncthreads();
    }
    out[t] = sum;
}
"""


def arguments(rng):
    return rng.integers(1, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: 2 * x[::-1] + 1}


CASES = (
    Case("always_zero", cuda_cpp(__file__, SOURCE, "always_zero"), 1, 64, arguments, defective=True),
    Case("turned_over", cuda_cpp(__file__, SOURCE, "turned_over"), 1, 64, arguments, reference),
)
