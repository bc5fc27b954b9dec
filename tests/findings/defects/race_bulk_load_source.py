"""Another warp stores numbers that a bulk copy brings to shared memory: neither before the copy nor after it."""

import numpy as np
from case import Case, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool before>
__global__ void takes_stored(int *x, int *out) {
    TILE_AND_MBARRIER(1);
    if (t > 31) x[t] = 7;  // finds: TW306
    if (before) {
        FENCE_PROXY;
        __syncthreads();
    }
    if (t == 0) {
        ARRIVE_AND_EXPECT(&bar, 256);
        LOAD_BULK(tile, x, 256, &bar);
    }
    AWAIT(&bar, 0);
    out[t] = tile[t];
}
"""


def stored(x, out):
    """The second half of the numbers is 7, and all are copied."""
    after = np.where(np.arange(64) < 32, x, 7)
    return {0: after, 1: after}


CASES = (
    Case("takes_while_stored", cuda_cpp(__file__, SOURCE, "takes_stored<false>"), 1, 64, numbers(64), defective=True),
    Case("takes_stored", cuda_cpp(__file__, SOURCE, "takes_stored<true>"), 1, 64, numbers(64), stored),
)
