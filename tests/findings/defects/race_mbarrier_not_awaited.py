"""Threads arrive at an mbarrier, and read what others wrote without waiting for it."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool awaited>
__global__ void arrives(const int *x, int *out) {
    TILE_AND_MBARRIER(64);
    tile[t] = x[t];  // finds: TW301
    ARRIVE(&bar);
    if (awaited) AWAIT(&bar, 0);
    out[t] = tile[63 - t];
}
"""

CASES = (
    Case("arrives_only", cuda_cpp(__file__, SOURCE, "arrives<false>"), 1, 64, numbers(64), defective=True),
    Case("arrives_and_waits", cuda_cpp(__file__, SOURCE, "arrives<true>"), 1, 64, numbers(64), backwards),
)
