"""A bulk copy lands in another block of the cluster, over zeros that this has stored without a fence."""

from case import Case, cuda_cpp, numbers, swapped

SOURCE = r"""
#include "clusters.cuh"

template <bool fenced>
__global__ void __cluster_dims__(2, 1, 1) filled_there(const int *x, int *out) {
    TILE_AND_MBARRIER_OF_CLUSTER(1);
    tile[t] = 0;
    if (fenced) FENCE_PROXY;
    synchronise_cluster();
    if (t == 0) {
        ARRIVE_AND_EXPECT(&bar, 256);
        LOAD_BULK_THERE(tile, x + blockIdx.x * 64, 256, &bar);  // finds: TW412
    }
    AWAIT(&bar, 0);
    out[i] = tile[t];
    synchronise_cluster();
}
"""


CASES = (
    Case("over_stores_there", cuda_cpp(__file__, SOURCE, "filled_there<false>"), 2, 64, numbers(128), defective=True),
    Case("over_fenced_stores_there", cuda_cpp(__file__, SOURCE, "filled_there<true>"), 2, 64, numbers(128), swapped),
)
