"""A block writes again what the other one of its cluster is reading: `__syncthreads` does not wait for that."""

from case import Case, cuda_cpp, numbers

SOURCE = r"""
#include "clusters.cuh"

template <bool awaited>
__global__ void __cluster_dims__(2, 1, 1) exchanged_twice(const int *x, int *out) {
    TILE_OF_CLUSTER;
    int once, twice;
    tile[t] = x[i];
    synchronise_cluster();
    LOAD_THERE(once, &tile[t]);
    if (awaited) {
        synchronise_cluster();
    } else {
        __syncthreads();
    }
    tile[t] = 2 * x[i];  // finds: TW308
    synchronise_cluster();
    LOAD_THERE(twice, &tile[t]);
    out[i] = awaited ? twice : once + twice;
    synchronise_cluster();
}
"""


def swapped(x, out):
    """The halves of a cluster's numbers change places."""
    return {1: 2 * x.reshape(2, 2, 64)[:, ::-1].ravel()}


CASES = (
    Case("block_s_barrier", cuda_cpp(__file__, SOURCE, "exchanged_twice<false>"), 4, 64, numbers(256), defective=True),
    Case("cluster_s_barrier", cuda_cpp(__file__, SOURCE, "exchanged_twice<true>"), 4, 64, numbers(256), swapped),
)
