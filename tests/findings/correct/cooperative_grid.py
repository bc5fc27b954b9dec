"""A grid that waits for itself twice by cooperative groups: a stencil in two steps and the sum of all blocks' sums."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void smooth_and_sum(const int *x, int *smooth, int *sums, int *total, int n) {
    const cg::grid_group grid = cg::this_grid();
    const cg::thread_block block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    for (unsigned i = grid.thread_rank(); i < n; i += grid.num_threads()) {
        smooth[i] = x[i] + x[(i + 1) % n];
    }
    if (block.thread_rank() == 0) {
        sums[grid.block_rank()] = 0;
    }
    grid.sync();
    int mine = 0;
    for (unsigned i = grid.thread_rank(); i < n; i += grid.num_threads()) {
        mine += smooth[i] * smooth[(i + n / 2) % n];
    }
    mine = cg::reduce(warp, mine, cg::plus<int>());
    if (warp.thread_rank() == 0) {
        atomicAdd(&sums[grid.block_rank()], mine);
    }
    grid.sync();
    if (grid.thread_rank() == 0) {
        int all = 0;
        for (unsigned i = 0; i < grid.num_blocks(); ++i) {
            all += sums[i];
        }
        *total = all;
    }
}
"""


def arguments(rng):
    x = rng.integers(-99, 99, 1000).astype(np.int32)
    return x, np.zeros(1000, np.int32), np.zeros(5, np.int32), np.zeros(1, np.int32), 1000


def reference(x, smooth, sums, total, n):
    smoothed = x + np.roll(x, -1)
    return {1: smoothed, 3: [(smoothed * np.roll(smoothed, -n // 2)).sum()]}


KERNEL = cuda_cpp(__file__, SOURCE, "smooth_and_sum")
CASES = (
    Case("grid_of_blocks", KERNEL, 5, 64, arguments, reference, cooperative=True, unwritten=(1, 2, 3)),
    Case("one_block", KERNEL, 1, 96, arguments, reference, cooperative=True, unwritten=(1, 2, 3)),
)
