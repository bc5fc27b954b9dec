"""The source of a bulk copy is overwritten while it may still be read."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool read>
__global__ void overwrites_source(const int *x, int *out) {
    __shared__ alignas(16) int tile[64];
    const int t = threadIdx.x;
    tile[63 - t] = x[t];
    FENCE_PROXY;
    __syncthreads();
    if (t == 0) {
        STORE_BULK(out, tile, 256);
        COMMIT_BULK;
        if (read) WAIT_BULK(.read);
        tile[0] = 7;  // finds: TW306
        WAIT_BULK();
    }
}
"""

CASES = (
    Case(
        "overwrites_source", cuda_cpp(__file__, SOURCE, "overwrites_source<false>"), 1, 64, numbers(64), defective=True
    ),
    Case("waits_for_reads", cuda_cpp(__file__, SOURCE, "overwrites_source<true>"), 1, 64, numbers(64), backwards),
)
