"""An mbarrier that a thread initialises only where a flag of the launch says so, and all use."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <int thread>
__global__ void initialised_by(const int *x, int *out) {
    TILE_AND_ROOM;
    if (t == thread) INIT(&bar, 128);
    __syncthreads();
    tile[t] = x[t];
    asm volatile("mbarrier.arrive.noComplete.shared.b64 _, [%0], 1;" ::IN_SHARED(&bar) : "memory");  // finds: TW406
    __syncthreads();
    out[t] = tile[63 - t];
}
"""

CASES = (
    Case("only_sometimes", cuda_cpp(__file__, SOURCE, "initialised_by<64>"), 1, 64, numbers(64), defective=True),
    Case("always_initialised", cuda_cpp(__file__, SOURCE, "initialised_by<0>"), 1, 64, numbers(64), backwards),
)
