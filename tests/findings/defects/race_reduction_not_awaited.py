"""A thread reads a number to which it adds before the mbarrier that counts what is added."""

from case import Case, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

#define ADD(place, number, bar)                                                                                    \
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];"  \
                 ::IN_SHARED(place), "r"(number), IN_SHARED(bar) : "memory")

template <bool awaited>
__global__ void adds(const int *x, int *out) {
    TILE_AND_MBARRIER(64);
    tile[t] = x[t];
    ARRIVE_AND_EXPECT(&bar, 8);
    ADD(&tile[t], 5, &bar);
    ADD(&tile[t], 7, &bar);  // beside the other: either may come first
    if (awaited) AWAIT(&bar, 0);
    out[t] = tile[t];  // finds: TW306
    if (!awaited) AWAIT(&bar, 0);
}
"""

CASES = (
    Case("reduction_early", cuda_cpp(__file__, SOURCE, "adds<false>"), 1, 64, numbers(64), defective=True),
    Case("reduction_awaited", cuda_cpp(__file__, SOURCE, "adds<true>"), 1, 64, numbers(64), lambda x, out: {1: x + 12}),
)
