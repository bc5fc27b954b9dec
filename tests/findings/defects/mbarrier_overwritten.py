"""A tile that is one row too short overlaps the mbarrier after it."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

__global__ void row_too_short(const int *x, int *out) {
    __shared__ struct { int tile[62]; uint64_t bar; } shared;
    const int t = threadIdx.x;
    if (t == 0) INIT(&shared.bar, 64);
    __syncthreads();
    volatile int *tile = shared.tile;
    tile[t] = x[t];  // finds: TW410
    __syncthreads();
    out[t] = x[63 - t];
}

__global__ void row_of_all(const int *x, int *out) {
    TILE_AND_MBARRIER(64);
    tile[t] = x[t];
    ARRIVE(&bar);
    AWAIT(&bar, 0);
    out[t] = tile[63 - t];
}
"""

CASES = (
    Case("row_too_short", cuda_cpp(__file__, SOURCE, "row_too_short"), 1, 64, numbers(64), defective=True),
    Case("row_of_all", cuda_cpp(__file__, SOURCE, "row_of_all"), 1, 64, numbers(64), backwards),
)
