"""Each round of a loop initialises the mbarrier again, which it has not invalidated."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool ends>
__global__ void by_rounds(const int *x, int *out) {
    TILE_AND_ROOM;
    for (int round = 0; round < 2; ++round) {
        if (t == 0) INIT(&bar, 64);  // finds: TW406
        __syncthreads();
        tile[t] = x[t];
        ARRIVE(&bar);
        AWAIT(&bar, 0);
        out[t] = tile[63 - t];
        __syncthreads();
        if (ends && t == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" ::IN_SHARED(&bar) : "memory");
    }
}
"""

CASES = (
    Case("initialised_again", cuda_cpp(__file__, SOURCE, "by_rounds<false>"), 1, 64, numbers(64), defective=True),
    Case("invalidated_between", cuda_cpp(__file__, SOURCE, "by_rounds<true>"), 1, 64, numbers(64), backwards),
)
