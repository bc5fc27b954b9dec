"""A thread ends an mbarrier while others have still to test it."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

#define INVALIDATE(bar) asm volatile("mbarrier.inval.shared.b64 [%0];" ::IN_SHARED(bar) : "memory")

template <bool early>
__global__ void ended(const int *x, int *out) {
    TILE_AND_MBARRIER(64);
    tile[t] = x[t];
    ARRIVE(&bar);
    __syncthreads();
    if (early && t == 0) INVALIDATE(&bar);
    __syncthreads();
    int done;
    TEST(done, &bar, 0);  // finds: TW406
    out[t] = tile[63 - t] + (done > 1);
    __syncthreads();
    if (!early && t == 0) INVALIDATE(&bar);
}
"""

CASES = (
    Case("ended_early", cuda_cpp(__file__, SOURCE, "ended<true>"), 1, 64, numbers(64), defective=True),
    Case("ended_at_last", cuda_cpp(__file__, SOURCE, "ended<false>"), 1, 64, numbers(64), backwards),
)
