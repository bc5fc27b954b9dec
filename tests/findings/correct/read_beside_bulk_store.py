"""A warp reads a tile while a bulk copy of another reads it too; the tile is overwritten behind both."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "mbarriers.cuh"

__global__ void read_beside_bulk_store(const int *x, int *out, int *copy) {
    __shared__ alignas(128) int tile[32];
    __shared__ uint64_t begun, read;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        INIT(&begun, 1);
        INIT(&read, 1);
    }
    if (warp == 0) tile[lane] = x[lane];
    FENCE_PROXY;
    __syncthreads();
    if (warp) {
        AWAIT(&begun, 0);
        out[lane] = tile[31 - lane];
        __syncwarp();
        if (lane == 0) ARRIVE(&read);
    } else {
        if (lane == 0) {
            STORE_BULK(copy, tile, 128);
            COMMIT_BULK;
            ARRIVE(&begun);
        }
        AWAIT(&read, 0);
        if (lane == 0) WAIT_BULK(.read);
        __syncwarp();
        tile[lane] = 0;
    }
}
"""


def arguments(rng):
    return rng.integers(1, 99, 32).astype(np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32)


CASES = (
    Case(
        "read_beside_bulk_store",
        cuda_cpp(__file__, SOURCE, "read_beside_bulk_store"),
        1,
        64,
        arguments,
        lambda x, out, copy: {1: x[::-1], 2: x},
    ),
)
