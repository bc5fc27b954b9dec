"""A thread ends an mbarrier while others have still to test it."""

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

__device__ void inval(uint64_t *bar) { asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at(bar)) : "memory"); }

__global__ void ended_early(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    tile[t] = x[t];
    arrive(&bar);
    __syncthreads();
    if (t == 0) inval(&bar);
    __syncthreads();
    unsigned done;
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0,1,0,p;}"  // finds: TW406
                 : "=r"(done) : "r"(at(&bar)) : "memory");
    out[t] = tile[63 - t] + (done > 1);
}

__global__ void ended_at_last(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    tile[t] = x[t];
    arrive(&bar);
    __syncthreads();
    unsigned done;
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0,1,0,p;}"
                 : "=r"(done) : "r"(at(&bar)) : "memory");
    out[t] = tile[63 - t] + (done > 1);
    __syncthreads();
    if (t == 0) inval(&bar);
}
"""


def arguments(rng):
    return rng.integers(1, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: x[::-1]}


CASES = (
    Case("ended_early", cuda_cpp(__file__, SOURCE, "ended_early"), 1, 64, arguments, defective=True),
    Case("ended_at_last", cuda_cpp(__file__, SOURCE, "ended_at_last"), 1, 64, arguments, reference),
)
