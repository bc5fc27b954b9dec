"""A bulk copy overwrites stored zeros without a fence between the proxies: the zeros may come last."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool fenced>
__global__ void filled(const int *x, int *out) {
    TILE_AND_ROOM;
    tile[t] = 0;
    if (t == 0) INIT(&bar, 1);
    if (fenced) FENCE_PROXY;
    __syncthreads();
    if (t == 0) {
        ARRIVE_AND_EXPECT(&bar, 256);
        LOAD_BULK(tile, x, 256, &bar);  // finds: TW412
    }
    AWAIT(&bar, 0);
    out[t] = tile[63 - t];
}
"""

CASES = (
    Case("over_stores", cuda_cpp(__file__, SOURCE, "filled<false>"), 1, 64, numbers(64), defective=True),
    Case("over_fenced_stores", cuda_cpp(__file__, SOURCE, "filled<true>"), 1, 64, numbers(64), backwards),
)
