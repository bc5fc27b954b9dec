"""A matrix changes while a box of it is copied to both blocks of a cluster: only the mbarriers say when it was read."""

import numpy as np
from case import Case, cuda_cpp

from tilewright.gpu.tensor_maps import TensorMap

SOURCE = r"""
#include "clusters.cuh"

__device__ inline void load_to_both(int *tile, const TensorMap &map, uint64_t *bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %2}], [%3], %4;"
                 ::IN_SHARED(tile), "l"(&map), "r"(0), IN_SHARED(bar), "h"((short)3) : "memory");
}

template <bool awaited>
__global__ void __cluster_dims__(2, 1, 1) shares_box(const __grid_constant__ TensorMap map, int *x, int *out) {
    __shared__ alignas(128) int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (t == 0) {
        INIT(&bar, 1);
        ARRIVE_AND_EXPECT(&bar, 256);
    }
    synchronise_cluster();
    if (t == 0 && blockIdx.x == 0) load_to_both(tile, map, &bar);
    if (awaited) AWAIT(&bar, 0);
    synchronise_cluster();
    if (blockIdx.x == 0) x[63 - t] = 0;  // finds: TW306
    AWAIT(&bar, 0);
    out[i] = tile[t];
    synchronise_cluster();
}
"""


def numbers(rng):
    """A map of boxes of all of 8 x 8 numbers, these, and room for two boxes."""
    x = rng.integers(1, 99, (8, 8)).astype(np.int32)
    return TensorMap(x, (8, 8)), x, np.zeros(128, np.int32)


def shared(given, x, out):
    """The numbers twice, which are 0 now."""
    return {1: np.zeros_like(x), 2: np.tile(x.ravel(), 2)}


CASES = (
    Case("box_of_both_is_read", cuda_cpp(__file__, SOURCE, "shares_box<false>"), 2, 64, numbers, defective=True),
    Case("box_of_both_was_read", cuda_cpp(__file__, SOURCE, "shares_box<true>"), 2, 64, numbers, shared),
)
