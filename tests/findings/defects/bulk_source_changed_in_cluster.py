"""A block overwrites what it sends to the other one of its cluster, without word that the copy has arrived there."""

from case import Case, cuda_cpp, numbers, swapped

SOURCE = r"""
#include "clusters.cuh"

template <bool arrived>
__global__ void __cluster_dims__(2, 1, 1) sends(const int *x, int *out) {
    MINE_FOR_THE_OTHER_OF_CLUSTER;
    if (t == 0) SEND_BULK(its, mine, 256, &bar);
    if (arrived) {
        AWAIT(&bar, 0);
        synchronise_cluster();
    }
    __syncthreads();
    mine[63 - t] = 0;  // finds: TW306
    AWAIT(&bar, 0);
    out[i] = its[t];
    synchronise_cluster();
}
"""


CASES = (
    Case("overwrites_what_it_sends", cuda_cpp(__file__, SOURCE, "sends<false>"), 4, 64, numbers(256), defective=True),
    Case("overwrites_what_it_sent", cuda_cpp(__file__, SOURCE, "sends<true>"), 4, 64, numbers(256), swapped),
)
