"""One lane arrives for its warp, and a barrier makes its writes visible to warps that did not wait at the mbarrier."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

// The first warp stores, and one lane of it arrives. The second waits there, and a barrier hands that on to the third.
template <bool together>
__global__ void handed_on(const int *x, int *out) {
    TILE_AND_MBARRIER(1);
    if (t < 32) {
        tile[t] = x[t];  // finds: TW411
        if (together) __syncwarp();
        if (t == 0) ARRIVE(&bar);
    } else {
        if (t < 64) AWAIT(&bar, 0);
        asm volatile("bar.sync 1, 64;" ::: "memory");
        if (t >= 64) out[t - 64] = tile[95 - t];
    }
    __syncthreads();
}

// One lane has stored all.
__global__ void handed_on_of_one(const int *x, int *out) {
    TILE_AND_MBARRIER(1);
    if (t == 0) {
        for (int i = 0; i < 32; i++) tile[i] = x[i];
        ARRIVE(&bar);
    }
    if (t >= 32) {
        if (t < 64) AWAIT(&bar, 0);
        asm volatile("bar.sync 1, 64;" ::: "memory");
        if (t >= 64) out[t - 64] = tile[95 - t];
    }
    __syncthreads();
}
"""


CASES = (
    Case("handed_on", cuda_cpp(__file__, SOURCE, "handed_on<false>"), 1, 96, numbers(32), defective=True),
    Case("handed_on_together", cuda_cpp(__file__, SOURCE, "handed_on<true>"), 1, 96, numbers(32), backwards),
    Case("handed_on_of_one", cuda_cpp(__file__, SOURCE, "handed_on_of_one"), 1, 96, numbers(32), backwards),
)
