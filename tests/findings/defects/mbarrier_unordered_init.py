"""Other warps arrive at an mbarrier when a flag says that it is initialised, without a barrier or a fence."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool ordered>
__global__ void used(const int *x, int *out) {
    TILE_AND_ROOM;
    __shared__ volatile int made;
    if (t == 0) made = 0;
    __syncthreads();
    if (t == 0) INIT(&bar, 64);
    if (t == 0) made = 1;
    while (!made) {
    }
    if (ordered) __syncthreads();
    tile[t] = x[t];
    ARRIVE(&bar);  // finds: TW406
    AWAIT(&bar, 0);  // finds: TW406
    out[t] = tile[63 - t];
}
"""

CASES = (
    Case("used_at_once", cuda_cpp(__file__, SOURCE, "used<false>"), 1, 64, numbers(64), defective=True),
    Case("used_behind_a_barrier", cuda_cpp(__file__, SOURCE, "used<true>"), 1, 64, numbers(64), backwards),
)
