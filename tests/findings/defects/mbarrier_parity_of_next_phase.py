"""Readers await the parity of the next phase, which nobody begins, in place of the one that is complete."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <int parity>
__global__ void handed_over(const int *x, int *out) {
    TILE_AND_MBARRIER(32);
    if (t >= 32) {
        tile[t] = x[t];
        ARRIVE(&bar);
        __syncthreads();
        tile[t - 32] = x[t - 32];
        ARRIVE(&bar);
        __syncthreads();
    } else {
        AWAIT(&bar, 0);
        out[t] = tile[63 - t];
        __syncthreads();
        __syncthreads();
        AWAIT(&bar, parity);  // finds: TW407
        out[t + 32] = tile[31 - t];
    }
}
"""

CASES = (
    Case("next_phase", cuda_cpp(__file__, SOURCE, "handed_over<0>"), 1, 64, numbers(64), defective=True),
    Case("this_phase", cuda_cpp(__file__, SOURCE, "handed_over<1>"), 1, 64, numbers(64), backwards),
)
