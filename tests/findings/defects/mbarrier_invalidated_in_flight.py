"""An mbarrier is invalidated though nobody has awaited the copy that it counts."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool awaited>
__global__ void filled(const int *x, int *out) {
    TILE_AND_MBARRIER(1);
    if (t == 0) {
        ARRIVE_AND_EXPECT(&bar, 256);
        LOAD_BULK(tile, x, 256, &bar);
        if (awaited) AWAIT(&bar, 0);
        asm volatile("mbarrier.inval.shared.b64 [%0];" ::IN_SHARED(&bar) : "memory");  // finds: TW406
    }
    __syncthreads();
    out[t] = awaited ? tile[63 - t] : x[63 - t];
}
"""

CASES = (
    Case("invalidated_in_flight", cuda_cpp(__file__, SOURCE, "filled<false>"), 1, 64, numbers(64), defective=True),
    Case("invalidated_when_there", cuda_cpp(__file__, SOURCE, "filled<true>"), 1, 64, numbers(64), backwards),
)
