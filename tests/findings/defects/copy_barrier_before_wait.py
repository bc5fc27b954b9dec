"""The barrier comes before the wait: after it, other threads' copies may still be in flight."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "copies.cuh"

template <bool early>
__global__ void reversed(const int *x, int *out) {
    COPY_TO_TILE(int, 256, x);
    __pipeline_commit();
    if (early) __syncthreads();
    __pipeline_wait_prior(0);
    if (!early) __syncthreads();
    out[threadIdx.x] = tile[255 - threadIdx.x];  // finds: TW306
}
"""

CASES = (
    Case("copy_too_early", cuda_cpp(__file__, SOURCE, "reversed<true>"), 1, 256, numbers(256), defective=True),
    Case("copy_in_time", cuda_cpp(__file__, SOURCE, "reversed<false>"), 1, 256, numbers(256), backwards),
)
