"""A block's store after its arrival at the barrier of its cluster is not ordered by that barrier."""

from case import Case, cuda_cpp, numbers, swapped

SOURCE = r"""
#include "clusters.cuh"

template <bool before>
__global__ void __cluster_dims__(2, 1, 1) split(const int *x, int *out) {
    TILE_OF_CLUSTER;
    if (before) tile[t] = x[i];
    COME("release");
    if (!before) tile[t] = x[i];  // finds: TW308
    RESULT_OF_OTHER(out);
}
"""


CASES = (
    Case("stored_behind_arrival", cuda_cpp(__file__, SOURCE, "split<false>"), 4, 64, numbers(256), defective=True),
    Case("stored_before_arrival", cuda_cpp(__file__, SOURCE, "split<true>"), 4, 64, numbers(256), swapped),
)
