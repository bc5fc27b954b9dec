"""A relaxed arrival hands on nothing."""

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

__global__ void relaxed_arrival(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    tile[t] = x[t];  // finds: TW301
    asm volatile("mbarrier.arrive.relaxed.cta.shared.b64 _, [%0];" ::"r"(at(&bar)) : "memory");
    wait(&bar, 0);
    out[t] = tile[63 - t];
}

__global__ void releasing_arrival(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    tile[t] = x[t];
    asm volatile("mbarrier.arrive.release.cta.shared.b64 _, [%0];" ::"r"(at(&bar)) : "memory");
    wait(&bar, 0);
    out[t] = tile[63 - t];
}
"""


def arguments(rng):
    return rng.integers(1, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: x[::-1]}


CASES = (
    Case("relaxed_arrival", cuda_cpp(__file__, SOURCE, "relaxed_arrival"), 1, 64, arguments, defective=True),
    Case("releasing_arrival", cuda_cpp(__file__, SOURCE, "releasing_arrival"), 1, 64, arguments, reference),
)
