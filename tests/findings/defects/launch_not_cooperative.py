"""A barrier of the grid in a launch that is not cooperative: the kernel ends itself there."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void turned(const int *x, int *once, int *twice, int n) {
    const cg::grid_group grid = cg::this_grid();
    const unsigned i = grid.thread_rank();
    once[i] = x[n - 1 - i];
    grid.sync();  // finds: TW509
    twice[i] = once[n - 1 - i];
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 128).astype(np.int32), np.zeros(128, np.int32), np.zeros(128, np.int32), 128


def reference(x, once, twice, n):
    return {1: x[::-1], 2: x}


KERNEL = cuda_cpp(__file__, SOURCE, "turned")
CASES = (
    Case("plain_launch", KERNEL, 4, 32, arguments, defective=True),
    Case("cooperative_launch", KERNEL, 4, 32, arguments, reference, cooperative=True),
)
