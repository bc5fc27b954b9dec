"""An mbarrier that expects every thread of the block, of which the first does not arrive."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <int first>
__global__ void arrive_from(const int *x, int *out) {
    TILE_AND_MBARRIER(64);
    tile[t] = x[t];
    if (t >= first) ARRIVE(&bar);
    AWAIT(&bar, 0);  // finds: TW408
    out[t] = tile[63 - t];
}
"""

CASES = (
    Case("all_but_the_first", cuda_cpp(__file__, SOURCE, "arrive_from<1>"), 1, 64, numbers(64), defective=True),
    Case("every_one", cuda_cpp(__file__, SOURCE, "arrive_from<0>"), 1, 64, numbers(64), backwards),
)
