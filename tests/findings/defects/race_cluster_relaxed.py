"""A relaxed arrival at the barrier of a cluster does not hand on what a block has stored."""

from case import Case, cuda_cpp, numbers, swapped

SOURCE = r"""
#include "clusters.cuh"

template <bool released>
__global__ void __cluster_dims__(2, 1, 1) arrived(const int *x, int *out) {
    TILE_OF_CLUSTER;
    tile[t] = x[i];  // finds: TW308
    if (released) {
        COME("release");
    } else {
        COME("relaxed");
    }
    RESULT_OF_OTHER(out);
}
"""


CASES = (
    Case("relaxed_at_the_cluster", cuda_cpp(__file__, SOURCE, "arrived<false>"), 4, 64, numbers(256), defective=True),
    Case("releasing_at_the_cluster", cuda_cpp(__file__, SOURCE, "arrived<true>"), 4, 64, numbers(256), swapped),
)
