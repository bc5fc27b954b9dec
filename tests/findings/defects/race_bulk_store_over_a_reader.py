"""A tile that a warp reads and a bulk copy stores: the copy's warp overwrites it without waiting for that warp."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "mbarriers.cuh"

template <bool both>
__global__ void stored_and_cleared(const int *x, int *out, int *copy) {
    __shared__ alignas(128) int tile[32];
    __shared__ uint64_t begun, read;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        INIT(&begun, 1);
        INIT(&read, 1);
    }
    if (warp == 0) tile[lane] = x[lane];
    FENCE_PROXY;
    __syncthreads();
    if (warp) {
        out[lane] = tile[31 - lane];
        __syncwarp();
        if (lane == 0) ARRIVE(&read);
    } else {
        if (lane == 0) {
            STORE_BULK(copy, tile, 128);
            COMMIT_BULK;
            WAIT_BULK(.read);
        }
        __syncwarp();
        if (both) AWAIT(&read, 0);
        tile[lane] = 0;  // finds: TW301
    }
}
"""


def arguments(rng):
    return rng.integers(1, 99, 32).astype(np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32)


def reference(x, out, copy):
    return {1: x[::-1], 2: x}


CASES = (
    Case(
        "cleared_behind_copy", cuda_cpp(__file__, SOURCE, "stored_and_cleared<false>"), 1, 64, arguments, defective=True
    ),
    Case("cleared_behind_both", cuda_cpp(__file__, SOURCE, "stored_and_cleared<true>"), 1, 64, arguments, reference),
)
