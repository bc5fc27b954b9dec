"""One level of a breadth-first search: vertices are claimed by compare-and-swap, the next frontier by a counter."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void breadth_first(const int *starts, const int *targets, int *level, const int *frontier, int frontier_size,
                              int *next, int *next_size, int depth) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < frontier_size) {
        const int vertex = frontier[i];
        for (int edge = starts[vertex]; edge < starts[vertex + 1]; ++edge) {
            if (atomicCAS(&level[targets[edge]], -1, depth) == -1) {
                next[atomicAdd(next_size, 1)] = targets[edge];
            }
        }
    }
}
"""


def arguments(rng):
    starts = np.arange(0, 603, 3, dtype=np.int32)
    level = np.full(200, -1, np.int32)
    frontier = rng.permutation(200)[:40].astype(np.int32)
    level[frontier] = 3
    targets = rng.integers(0, 200, 600).astype(np.int32)
    return starts, targets, level, frontier, 40, np.full(200, -1, np.int32), np.zeros(1, np.int32), 4


def reference(starts, targets, level, frontier, size, following, following_size, depth):
    reached = np.unique(targets.reshape(200, 3)[frontier])
    new = reached[level[reached] == -1]
    after = level.copy()
    after[new] = depth
    return {2: np.sort(after), 5: np.pad(new, (0, 200 - new.size), constant_values=-1), 6: [new.size]}


KERNEL = cuda_cpp(__file__, SOURCE, "breadth_first")
CASES = (Case("breadth_first", KERNEL, 2, 32, arguments, reference, settled=np.sort),)
