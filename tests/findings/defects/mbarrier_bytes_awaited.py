"""A phase waits for bytes that nobody brings."""

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

__global__ void bytes_never_come(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    tile[t] = x[t];
    if (t == 0)
        asm volatile("mbarrier.expect_tx.shared.b64 [%0], 320;" ::"r"(at(&bar)) : "memory");
    __syncthreads();
    if (t < 16)
        asm volatile("mbarrier.complete_tx.relaxed.cta.shared.b64 [%0], 16;" ::"r"(at(&bar)) : "memory");
    arrive(&bar);
    asm volatile("{.reg .pred p; w: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra w;}"  // finds: TW409
                 ::"r"(at(&bar)) : "memory");
    out[t] = tile[63 - t];
}

__global__ void bytes_come(const int *x, int *out) {
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
    Case("bytes_never_come", cuda_cpp(__file__, SOURCE, "bytes_never_come"), 1, 64, arguments, defective=True),
    Case("bytes_come", cuda_cpp(__file__, SOURCE, "bytes_come"), 1, 64, arguments, reference),
)
