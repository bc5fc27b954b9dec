"""The state of a phase is asked for when the next two are over too."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cstdint>

__device__ unsigned at(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }

__device__ void init(uint64_t *bar, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}

__device__ uint64_t arrive(uint64_t *bar) {
    uint64_t state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at(bar)) : "memory");
    return state;
}

__global__ void asked_too_late(const int *x, int *out) {
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    const uint64_t first = arrive(&bar);
    __syncthreads();
    arrive(&bar);
    __syncthreads();
    arrive(&bar);
    __syncthreads();
    int done;
    asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"  // finds: TW407
                 : "=r"(done) : "r"(at(&bar)), "l"(first) : "memory");
    out[t] = x[63 - t] + (done > 1);
}

__global__ void asked_in_time(const int *x, int *out) {
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    const uint64_t first = arrive(&bar);
    __syncthreads();
    int done;
    asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(at(&bar)), "l"(first) : "memory");
    out[t] = x[63 - t] + (done > 1);
}
"""


def arguments(rng):
    return rng.integers(1, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: x[::-1]}


CASES = (
    Case("asked_too_late", cuda_cpp(__file__, SOURCE, "asked_too_late"), 1, 64, arguments, defective=True),
    Case("asked_in_time", cuda_cpp(__file__, SOURCE, "asked_in_time"), 1, 64, arguments, reference),
)
