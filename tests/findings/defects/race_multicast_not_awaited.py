"""A block reads the data of another block's multicast after a barrier of their cluster, which does not wait for it."""

import numpy as np
from case import Case, cuda_cpp, numbers

SOURCE = r"""
#include "clusters.cuh"

__device__ inline void spread_to_both(int *tile, const int *x, uint64_t *bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1], 256, [%2], %3;" ::IN_SHARED(tile), "l"(x), IN_SHARED(bar), "h"((short)3) : "memory");
}

template <bool awaited>
__global__ void __cluster_dims__(2, 1, 1) spread(const int *x, int *out) {
    __shared__ alignas(16) int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (t == 0) {
        INIT(&bar, 1);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" ::IN_SHARED(&bar) : "memory");
    }
    synchronise_cluster();
    if (t == 0 && blockIdx.x % 2 == 0) spread_to_both(tile, x + i, &bar);
    synchronise_cluster();
    if (awaited) AWAIT(&bar, 0);
    out[i] = tile[t];  // finds: TW306
    synchronise_cluster();
}
"""


def swapped(x, out):
    """The halves of a cluster's numbers change places."""
    return {1: np.repeat(x.reshape(2, 2, 64)[:, :1], 2, axis=1).ravel()}


CASES = (
    Case("multicast_not_awaited", cuda_cpp(__file__, SOURCE, "spread<false>"), 4, 64, numbers(256), defective=True),
    Case("multicast_awaited", cuda_cpp(__file__, SOURCE, "spread<true>"), 4, 64, numbers(256), swapped),
)
