"""A relaxed arrival at another block's mbarrier does not hand on what was stored there."""

from case import Case, across, cuda_cpp, numbers

SOURCE = r"""
#include "clusters.cuh"

template <bool released>
__global__ void __cluster_dims__(2, 1, 1) delivered(const int *x, int *out) {
    TILE_AND_MBARRIER_OF_CLUSTER(64);
    synchronise_cluster();
    STORE_THERE(&tile[t], x[i]);  // finds: TW308
    if (released) {
        ARRIVE_THERE("release", &bar);
    } else {
        ARRIVE_THERE("relaxed", &bar);
    }
    RESULT_AWAITED(out);
}
"""


CASES = (
    Case("relaxed_arrivals_there", cuda_cpp(__file__, SOURCE, "delivered<false>"), 4, 64, numbers(256), defective=True),
    Case("releasing_arrivals_there", cuda_cpp(__file__, SOURCE, "delivered<true>"), 4, 64, numbers(256), across),
)
