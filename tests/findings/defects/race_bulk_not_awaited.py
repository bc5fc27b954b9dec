"""A bulk copy is read after a barrier of the block, which does not wait for it."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

__device__ void load(int *tile, const int *x, unsigned bytes, uint64_t *bar) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::IN_SHARED(bar), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::IN_SHARED(tile), "l"(x), "r"(bytes), IN_SHARED(bar) : "memory");
}

template <bool awaited>
__global__ void loaded(const int *x, int *out) {
    __shared__ alignas(16) int tile[64];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        INIT(&bar, 1);
        load(tile, x, 256, &bar);
    }
    __syncthreads();
    if (awaited) AWAIT(&bar, 0);
    out[threadIdx.x] = tile[63 - threadIdx.x];  // finds: TW306
}
"""

CASES = (
    Case("barrier_only", cuda_cpp(__file__, SOURCE, "loaded<false>"), 1, 64, numbers(64), defective=True),
    Case("barrier_and_wait", cuda_cpp(__file__, SOURCE, "loaded<true>"), 1, 64, numbers(64), backwards),
)
