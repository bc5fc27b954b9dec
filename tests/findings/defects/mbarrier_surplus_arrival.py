"""Threads that count for two arrive at an mbarrier of an odd number."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <int count>
__global__ void counts_for_two(const int *x, int *out) {
    TILE_AND_MBARRIER(count);
    tile[t] = x[t];
    asm volatile("mbarrier.arrive.shared.b64 _, [%0], 2;" ::IN_SHARED(&bar) : "memory");  // finds: TW408
    AWAIT(&bar, 0);
    out[t] = tile[63 - t];
}
"""

CASES = (
    Case("counts_for_two", cuda_cpp(__file__, SOURCE, "counts_for_two<127>"), 1, 64, numbers(64), defective=True),
    Case("counts_are_even", cuda_cpp(__file__, SOURCE, "counts_for_two<128>"), 1, 64, numbers(64), backwards),
)
