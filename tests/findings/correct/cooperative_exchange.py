"""Cooperative groups: tiles of sixteen lanes exchange through shared memory, each with its own sync."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void cooperative_exchange(const int *x, int *out) {
    __shared__ int rows[4][16];
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<16>(block);
    const int row = threadIdx.x / 16, lane = tile.thread_rank();
    rows[row][lane] = x[threadIdx.x];
    tile.sync();
    for (int shift = 1; shift < 16; shift *= 2) {
        const int left = lane >= shift ? rows[row][lane - shift] : 0;
        tile.sync();
        rows[row][lane] += left;
        tile.sync();
    }
    block.sync();
    out[threadIdx.x] = rows[3 - row][lane];
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: np.cumsum(x.reshape(4, 16), axis=1)[::-1].ravel()}


KERNEL = cuda_cpp(__file__, SOURCE, "cooperative_exchange")
CASES = (Case("cooperative_exchange", KERNEL, (1, 1, 1), (64, 1, 1), arguments, reference, unwritten=(1,)),)
