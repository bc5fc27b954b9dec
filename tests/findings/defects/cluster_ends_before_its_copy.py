"""A block ends while its own copy to the other one of its cluster may still be reading its shared memory."""

from case import Case, cuda_cpp, numbers, swapped

SOURCE = r"""
#include "clusters.cuh"

template <bool awaited>
__global__ void __cluster_dims__(2, 1, 1) sent(const int *x, int *out) {
    MINE_FOR_THE_OTHER_OF_CLUSTER;
    if (t == 0) SEND_BULK(its, mine, 256, &bar);  // finds: TW108
    AWAIT(&bar, 0);
    out[i] = its[t];
    if (awaited) {
        COME("relaxed");  // that the other has seen the copy's end is enough
        GO_ON();
    }
}

// The second block only takes: one of its warps says that the copy is there, by the first one's mbarrier.
template <bool by_itself>
__global__ void __cluster_dims__(2, 1, 1) sent_one_way(const int *x, int *out) {
    __shared__ alignas(16) int mine[64], its[64];
    __shared__ uint64_t bar, taken;
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    mine[t] = x[i];
    if (t == 0) {
        INIT(&bar, 1);
        INIT(&taken, 1);
        if (blockIdx.x % 2) ARRIVE_AND_EXPECT(&bar, 256);
    }
    FENCE_PROXY;
    synchronise_cluster();
    if (blockIdx.x % 2 == 0) {
        if (t == 0) {
            SEND_BULK(its, mine, 256, &bar);
            AWAIT(&taken, 0);
        }
    } else {
        AWAIT(&bar, 0);
        out[i] = its[t];
        if (!by_itself) __syncthreads();
        if (t == (by_itself ? 32 : 0)) ARRIVE_THERE("release", &taken);
    }
}
"""


def moved(x, out):
    """The first half of a cluster's numbers is the second half's result."""
    pairs = x.reshape(-1, 2, 64) * [[0], [1]]
    pairs[:, 1] = x.reshape(-1, 2, 64)[:, 0]
    return {1: pairs.ravel()}


CASES = (
    Case("sent_and_gone", cuda_cpp(__file__, SOURCE, "sent<false>"), 4, 64, numbers(256), defective=True),
    Case("sent_and_awaited", cuda_cpp(__file__, SOURCE, "sent<true>"), 4, 64, numbers(256), swapped),
    Case("sent_and_answered", cuda_cpp(__file__, SOURCE, "sent_one_way<false>"), 4, 64, numbers(256), moved),
    Case("sent_and_answered_by_one", cuda_cpp(__file__, SOURCE, "sent_one_way<true>"), 4, 64, numbers(256), moved),
)
