"""Cooperative groups: tiles of a warp and of eight lanes, and the block as a group."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void cooperative_tiles(const int *x, int *tile_sums, int *total) {
    __shared__ int warp_sums[4];
    const cg::thread_block block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    const auto eight = cg::tiled_partition<8>(warp);
    int sum = x[block.thread_rank()];
    for (int shift = 4; shift > 0; shift /= 2) {
        sum += eight.shfl_down(sum, shift);
    }
    if (eight.thread_rank() == 0) {
        tile_sums[block.thread_rank() / 8] = sum;
    }
    sum = eight.shfl(sum, 0);
    sum += warp.shfl_xor(sum, 8);
    sum += warp.shfl_xor(sum, 16);
    if (warp.thread_rank() == 0) {
        warp_sums[warp.meta_group_rank()] = sum;
    }
    block.sync();
    if (block.thread_rank() == 0) {
        *total = warp_sums[0] + warp_sums[1] + warp_sums[2] + warp_sums[3];
    }
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 128).astype(np.int32), np.zeros(16, np.int32), np.zeros(1, np.int32)


def reference(x, tile_sums, total):
    return {1: x.reshape(16, 8).sum(axis=1), 2: [x.sum()]}


KERNEL = cuda_cpp(__file__, SOURCE, "cooperative_tiles")
CASES = (Case("cooperative_tiles", KERNEL, (1, 1, 1), (128, 1, 1), arguments, reference, unwritten=(1, 2)),)
