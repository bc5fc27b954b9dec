"""One lane arrives at another block's mbarrier for its warp, and a barrier there makes its writes visible."""

import numpy as np
from case import Case, cuda_cpp, numbers

SOURCE = r"""
#include "clusters.cuh"

// Each block's first warp stores in the other block, whose first warp waits and whose second reads behind a barrier.
template <bool together>
__global__ void __cluster_dims__(2, 1, 1) handed_on_there(const int *x, int *out) {
    TILE_AND_MBARRIER(1);
    synchronise_cluster();
    if (t < 32) {
        STORE_THERE(&tile[t], x[blockIdx.x * 32 + t]);  // finds: TW411
        if (together) __syncwarp();
        if (t == 0) ARRIVE_THERE("release", &bar);
        AWAIT(&bar, 0);
    }
    __syncthreads();
    if (t >= 32) out[blockIdx.x * 32 + t - 32] = tile[63 - t];
    synchronise_cluster();
}

// One lane has stored all.
__global__ void __cluster_dims__(2, 1, 1) handed_on_there_of_one(const int *x, int *out) {
    TILE_AND_MBARRIER(1);
    synchronise_cluster();
    if (t == 0) {
        for (int i = 0; i < 32; i++) STORE_THERE(&tile[i], x[blockIdx.x * 32 + i]);
        ARRIVE_THERE("release", &bar);
    }
    if (t < 32) AWAIT(&bar, 0);
    __syncthreads();
    if (t >= 32) out[blockIdx.x * 32 + t - 32] = tile[63 - t];
    synchronise_cluster();
}
"""


def turned(x, out):
    """Each block has the other's numbers backwards."""
    return {1: np.ravel(x.reshape(2, 32)[::-1, ::-1])}


CASES = (
    Case("there", cuda_cpp(__file__, SOURCE, "handed_on_there<false>"), 2, 64, numbers(64), defective=True),
    Case("there_together", cuda_cpp(__file__, SOURCE, "handed_on_there<true>"), 2, 64, numbers(64), turned),
    Case("there_of_one", cuda_cpp(__file__, SOURCE, "handed_on_there_of_one"), 2, 64, numbers(64), turned),
)
