"""More bytes are expected of the other threads than they tell of, and nobody waits for them."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <int bytes>
__global__ void leaves(const int *x, int *out) {
    TILE_AND_MBARRIER(64);
    if (t == 0) EXPECT(&bar, bytes);  // finds: TW409
    tile[t] = x[t];
    __syncthreads();
    if (t < 16) COMPLETE(&bar, 16);
    ARRIVE(&bar);
    __syncthreads();
    out[t] = tile[63 - t];
}
"""

CASES = (
    Case("too_many_bytes", cuda_cpp(__file__, SOURCE, "leaves<320>"), 1, 64, numbers(64), defective=True),
    Case("as_many_bytes", cuda_cpp(__file__, SOURCE, "leaves<256>"), 1, 64, numbers(64), backwards),
)
