"""A block stores into the other one of its cluster before that is known to have begun."""

from case import Case, cuda_cpp, numbers, swapped

SOURCE = r"""
#include "clusters.cuh"

template <bool awaited>
__global__ void __cluster_dims__(2, 1, 1) sent(const int *x, int *out) {
    TILE_OF_CLUSTER;
    if (awaited) {
        COME("relaxed");
        GO_ON();
    }
    STORE_THERE(&tile[t], x[i]);  // finds: TW108
    synchronise_cluster();
    out[i] = tile[t];
}
"""


CASES = (
    Case("without_first_barrier", cuda_cpp(__file__, SOURCE, "sent<false>"), 4, 64, numbers(256), defective=True),
    Case("with_first_barrier", cuda_cpp(__file__, SOURCE, "sent<true>"), 4, 64, numbers(256), swapped),
)
