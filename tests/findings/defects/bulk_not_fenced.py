"""What threads have stored is copied out without a fence between the proxies."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool fenced>
__global__ void stored(const int *x, int *out) {
    __shared__ alignas(16) int tile[64];
    tile[63 - threadIdx.x] = x[threadIdx.x];
    if (fenced) FENCE_PROXY;
    __syncthreads();
    if (threadIdx.x == 0) {
        STORE_BULK(out, tile, 256);  // finds: TW412
        COMMIT_BULK;
        WAIT_BULK();
    }
}
"""

CASES = (
    Case("without_fence", cuda_cpp(__file__, SOURCE, "stored<false>"), 1, 64, numbers(64), defective=True),
    Case("with_fence", cuda_cpp(__file__, SOURCE, "stored<true>"), 1, 64, numbers(64), backwards),
)
