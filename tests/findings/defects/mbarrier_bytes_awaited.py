"""A phase waits for bytes that nobody brings."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <int bytes>
__global__ void expects(const int *x, int *out) {
    TILE_AND_MBARRIER(64);
    tile[t] = x[t];
    if (t == 0) EXPECT(&bar, bytes);
    __syncthreads();
    if (t < 16) COMPLETE(&bar, 16);
    ARRIVE(&bar);
    AWAIT(&bar, 0);  // finds: TW409
    out[t] = tile[63 - t];
}
"""

CASES = (
    Case("bytes_never_come", cuda_cpp(__file__, SOURCE, "expects<320>"), 1, 64, numbers(64), defective=True),
    Case("bytes_come", cuda_cpp(__file__, SOURCE, "expects<256>"), 1, 64, numbers(64), backwards),
)
