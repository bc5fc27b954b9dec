"""Two warps read a tile, and one lane of each arrives for all: the others' reads are not ordered before."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "mbarriers.cuh"

template <bool together>
__global__ void lanes_for_their_warps(const int *x, int *out) {
    __shared__ int tile[32];
    __shared__ uint64_t bar;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) INIT(&bar, 2);
    if (warp == 0) tile[lane] = x[lane];
    __syncthreads();
    if (warp < 2) {
        out[threadIdx.x] = tile[31 - lane];
        if (together) __syncwarp();
        if (lane == 0) ARRIVE(&bar);
    } else {
        AWAIT(&bar, 0);
        tile[lane] = 0;  // finds: TW411
    }
}
"""


def arguments(rng):
    return rng.integers(1, 99, 32).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: [*x[::-1], *x[::-1]]}


CASES = (
    Case(
        "lanes_for_their_warps",
        cuda_cpp(__file__, SOURCE, "lanes_for_their_warps<false>"),
        1,
        96,
        arguments,
        defective=True,
    ),
    Case(
        "lanes_behind_syncwarp",
        cuda_cpp(__file__, SOURCE, "lanes_for_their_warps<true>"),
        1,
        96,
        arguments,
        reference,
    ),
)
