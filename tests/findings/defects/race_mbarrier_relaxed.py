"""A relaxed arrival orders no memory."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool relaxed>
__global__ void arrival(const int *x, int *out) {
    TILE_AND_MBARRIER(64);
    tile[t] = x[t];  // finds: TW301
    if (relaxed)
        asm volatile("mbarrier.arrive.relaxed.cta.shared.b64 _, [%0];" ::IN_SHARED(&bar) : "memory");
    else
        asm volatile("mbarrier.arrive.release.cta.shared.b64 _, [%0];" ::IN_SHARED(&bar) : "memory");
    AWAIT(&bar, 0);
    out[t] = tile[63 - t];
}
"""

CASES = (
    Case("relaxed_arrival", cuda_cpp(__file__, SOURCE, "arrival<true>"), 1, 64, numbers(64), defective=True),
    Case("releasing_arrival", cuda_cpp(__file__, SOURCE, "arrival<false>"), 1, 64, numbers(64), backwards),
)
