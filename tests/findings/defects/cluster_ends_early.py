"""A block ends while the other one of its cluster may still be reading its shared memory."""

from case import Case, cuda_cpp, numbers, swapped

SOURCE = r"""
#include "clusters.cuh"

template <bool awaited>
__global__ void __cluster_dims__(2, 1, 1) exchanged(const int *x, int *out) {
    TILE_OF_CLUSTER;
    tile[t] = x[i];
    synchronise_cluster();
    RESULT_THERE(out[i], &tile[t]);  // finds: TW108
    if (awaited) {
        COME("relaxed");  // that nobody ends is enough
        GO_ON();
    }
}
"""


CASES = (
    Case("without_last_barrier", cuda_cpp(__file__, SOURCE, "exchanged<false>"), 4, 64, numbers(256), defective=True),
    Case("with_last_barrier", cuda_cpp(__file__, SOURCE, "exchanged<true>"), 4, 64, numbers(256), swapped),
)
