"""Two warps store one tile by bulk copies, and a third overwrites it when one of the copies has read it."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "mbarriers.cuh"

template <bool both>
__global__ void stored_twice(const int *x, int *out, int *copy) {
    __shared__ alignas(128) int tile[32];
    __shared__ uint64_t read[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x < 2) INIT(&read[threadIdx.x], 1);
    if (warp == 0) tile[lane] = x[lane];
    FENCE_PROXY;
    __syncthreads();
    if (warp < 2) {
        if (lane == 0) {
            STORE_BULK(warp ? copy : out, tile, 128);
            COMMIT_BULK;
            if (warp && !both) ARRIVE(&read[1]);
            WAIT_BULK(.read);
            if (!warp || both) ARRIVE(&read[warp]);
        }
    } else {
        AWAIT(&read[0], 0);
        AWAIT(&read[1], 0);
        tile[lane] = 0;  // finds: TW306
    }
}
"""


def arguments(rng):
    return rng.integers(1, 99, 32).astype(np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32)


def reference(x, out, copy):
    return {1: x, 2: x}


CASES = (
    Case("read_by_one", cuda_cpp(__file__, SOURCE, "stored_twice<false>"), 1, 96, arguments, defective=True),
    Case("read_by_both", cuda_cpp(__file__, SOURCE, "stored_twice<true>"), 1, 96, arguments, reference),
)
