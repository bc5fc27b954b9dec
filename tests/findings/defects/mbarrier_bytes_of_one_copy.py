"""Two copies bring bytes to an mbarrier that expects those of the first alone."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <int expected>
__global__ void filled(const int *x, int *out) {
    TILE_AND_MBARRIER(1);
    if (t == 0) {
        ARRIVE_AND_EXPECT(&bar, expected);  // finds: TW409
        LOAD_BULK(tile, x, 128, &bar);
        LOAD_BULK(tile + 32, x + 32, 128, &bar);
    }
    AWAIT(&bar, 0);
    out[t] = tile[63 - t];  // finds: TW306
}
"""

CASES = (
    Case("bytes_of_one", cuda_cpp(__file__, SOURCE, "filled<128>"), 1, 64, numbers(64), defective=True),
    Case("bytes_of_both", cuda_cpp(__file__, SOURCE, "filled<256>"), 1, 64, numbers(64), backwards),
)
