"""A bulk copy is read behind a barrier of the block, which does not wait for it."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cstdint>

__device__ unsigned at(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }

__device__ void load(int *tile, const int *x, unsigned bytes, uint64_t *bar) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(at(tile)), "l"(x), "r"(bytes), "r"(at(bar)) : "memory");
}

__device__ void init(uint64_t *bar, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}

__device__ void wait(uint64_t *bar, unsigned parity) {
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }"
                 ::"r"(at(bar)), "r"(parity) : "memory");
}

__global__ void barrier_only(const int *x, int *out) {
    __shared__ alignas(16) int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        init(&bar, 1);
        load(tile, x, 256, &bar);
    }
    __syncthreads();
    out[t] = tile[63 - t];  // finds: TW306
}

__global__ void barrier_and_wait(const int *x, int *out) {
    __shared__ alignas(16) int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        init(&bar, 1);
        load(tile, x, 256, &bar);
    }
    __syncthreads();
    wait(&bar, 0);
    out[t] = tile[63 - t];
}
"""


def arguments(rng):
    return rng.integers(1, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: x[::-1]}


CASES = (
    Case("barrier_only", cuda_cpp(__file__, SOURCE, "barrier_only"), 1, 64, arguments, defective=True),
    Case("barrier_and_wait", cuda_cpp(__file__, SOURCE, "barrier_and_wait"), 1, 64, arguments, reference),
)
