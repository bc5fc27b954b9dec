"""One lane of each warp arrives for all, and the others' stores are not ordered before."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool together>
__global__ void lane_for_its_warp(const int *x, int *out) {
    TILE_AND_MBARRIER(2);
    tile[t] = x[t];  // finds: TW411
    if (together) __syncwarp();
    if (t % 32 == 0) ARRIVE(&bar);
    AWAIT(&bar, 0);
    out[t] = tile[63 - t];
}
"""

CASES = (
    Case(
        "lane_for_its_warp", cuda_cpp(__file__, SOURCE, "lane_for_its_warp<false>"), 1, 64, numbers(64), defective=True
    ),
    Case("lane_behind_syncwarp", cuda_cpp(__file__, SOURCE, "lane_for_its_warp<true>"), 1, 64, numbers(64), backwards),
)
