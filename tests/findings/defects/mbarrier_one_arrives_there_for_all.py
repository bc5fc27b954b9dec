"""One lane of each warp arrives at another block's mbarrier for all, and the others' stores are not ordered before."""

from case import Case, across, cuda_cpp, numbers

SOURCE = r"""
#include "clusters.cuh"

template <bool together>
__global__ void __cluster_dims__(2, 1, 1) lane_for_its_warp(const int *x, int *out) {
    TILE_AND_MBARRIER_OF_CLUSTER(2);
    synchronise_cluster();
    STORE_THERE(&tile[t], x[i]);  // finds: TW411
    if (together) __syncwarp();
    if (t % 32 == 0) {
        ARRIVE_THERE("release", &bar);
    }
    RESULT_AWAITED(out);
}

// Each lane arrives for itself, one warp by its first lane, which alone has stored.
__global__ void __cluster_dims__(2, 1, 1) lanes_for_themselves(const int *x, int *out) {
    TILE_AND_MBARRIER_OF_CLUSTER(33);
    if (t > 32) tile[t] = x[i ^ 64];
    synchronise_cluster();
    if (t <= 32) {
        STORE_THERE(&tile[t], x[i]);
        ARRIVE_THERE("release", &bar);
    }
    RESULT_AWAITED(out);
}
"""


CASES = (
    Case("lane_there", cuda_cpp(__file__, SOURCE, "lane_for_its_warp<false>"), 4, 64, numbers(256), defective=True),
    Case(
        "lane_there_behind_syncwarp",
        cuda_cpp(__file__, SOURCE, "lane_for_its_warp<true>"),
        4,
        64,
        numbers(256),
        across,
    ),
    Case("lanes_there", cuda_cpp(__file__, SOURCE, "lanes_for_themselves"), 4, 64, numbers(256), across),
)
