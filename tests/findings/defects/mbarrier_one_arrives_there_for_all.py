"""One lane of each warp arrives at another block's mbarrier for all, and the others' stores are not ordered before."""

from case import Case, cuda_cpp, numbers

SOURCE = r"""
#include "clusters.cuh"

template <bool together>
__global__ void __cluster_dims__(2, 1, 1) lane_for_its_warp(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (t == 0) INIT(&bar, 2);
    synchronise_cluster();
    STORE_THERE(&tile[t], x[i]);  // finds: TW411
    if (together) __syncwarp();
    if (t % 32 == 0) {
        ARRIVE_THERE("release", &bar);
    }
    AWAIT(&bar, 0);
    out[i] = tile[63 - t];
    synchronise_cluster();
}

// Each lane arrives for itself, one warp by its first lane, which alone has stored.
__global__ void __cluster_dims__(2, 1, 1) lanes_for_themselves(const int *x, int *out) {
    __shared__ int tile[64];
    __shared__ uint64_t bar;
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (t == 0) INIT(&bar, 33);
    if (t > 32) tile[t] = x[i ^ 64];
    synchronise_cluster();
    if (t <= 32) {
        STORE_THERE(&tile[t], x[i]);
        ARRIVE_THERE("release", &bar);
    }
    AWAIT(&bar, 0);
    out[i] = tile[63 - t];
    synchronise_cluster();
}
"""


def swapped(x, out):
    """The halves of a cluster's numbers change places."""
    return {1: x.reshape(2, 2, 64)[:, ::-1, ::-1].ravel()}


CASES = (
    Case("lane_there", cuda_cpp(__file__, SOURCE, "lane_for_its_warp<false>"), 4, 64, numbers(256), defective=True),
    Case(
        "lane_there_behind_syncwarp",
        cuda_cpp(__file__, SOURCE, "lane_for_its_warp<true>"),
        4,
        64,
        numbers(256),
        swapped,
    ),
    Case("lanes_there", cuda_cpp(__file__, SOURCE, "lanes_for_themselves"), 4, 64, numbers(256), swapped),
)
