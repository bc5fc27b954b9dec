"""A block reads in global memory what the other one of its cluster stored: a relaxed arrival hands nothing on."""

from case import Case, cuda_cpp, numbers

SOURCE = r"""
#include "clusters.cuh"

template <bool released>
__global__ void __cluster_dims__(2, 1, 1) handed_on(const int *x, int *sums, int *out, int *count) {
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    sums[i] = 2 * x[i];  // finds: TW303
    atomicAdd(&count[blockIdx.x / 2], 1);  // finds: TW303
    if (released) {
        COME("release");
    } else {
        COME("relaxed");
    }
    GO_ON();
    const int mine = sums[i], theirs = sums[i ^ 64], both = count[blockIdx.x / 2];
    synchronise_cluster();
    sums[i] = mine + theirs + both;  // which both blocks have read
    synchronise_cluster();
    out[i] = sums[i ^ 64];
}
"""


def doubled(x, sums, out, count):
    """Each number's sum with that of the other block, twice, and the threads of both."""
    all_of = 2 * (x.reshape(2, 2, 64) + x.reshape(2, 2, 64)[:, ::-1]).ravel() + 128
    return {1: all_of, 2: all_of}


def arguments(rng):
    """Numbers, room for sums and results, and two counts of 0."""
    import numpy as np

    x, out = numbers(256)(rng)
    return x, np.zeros_like(out), out, np.zeros(2, np.int32)


CASES = (
    Case("relaxed", cuda_cpp(__file__, SOURCE, "handed_on<false>"), 4, 64, arguments, defective=True),
    Case("released", cuda_cpp(__file__, SOURCE, "handed_on<true>"), 4, 64, arguments, doubled),
)
