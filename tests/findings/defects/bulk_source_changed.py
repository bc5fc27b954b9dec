"""The numbers that a bulk copy brings to shared memory are overwritten before its mbarrier's phase has completed."""

import numpy as np
from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool awaited>
__global__ void takes(int *x, int *out) {
    TILE_AND_MBARRIER(1);
    if (t == 0) {
        ARRIVE_AND_EXPECT(&bar, 256);
        LOAD_BULK(tile, x, 256, &bar);
    }
    if (awaited) AWAIT(&bar, 0);
    __syncthreads();
    x[63 - t] = 0;  // finds: TW306
    AWAIT(&bar, 0);
    out[t] = tile[63 - t];
}
"""


def cleared(x, out):
    """The numbers backwards, which are 0 now."""
    return {0: np.zeros_like(x), **backwards(x, out)}


CASES = (
    Case("bulk_copy_reads", cuda_cpp(__file__, SOURCE, "takes<false>"), 1, 64, numbers(64), defective=True),
    Case("bulk_copy_has_read", cuda_cpp(__file__, SOURCE, "takes<true>"), 1, 64, numbers(64), cleared),
)
