"""A level-synchronous search whose blocks read levels that others write; that all write the same is no order."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void plain_levels(const int *starts, const int *targets, int *level, int n, int depth) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && level[i] == depth) {
        for (int edge = starts[i]; edge < starts[i + 1]; ++edge) {
            if (level[targets[edge]] == -1) {
                level[targets[edge]] = depth + 1;  // finds: TW303
            }
        }
    }
}

__global__ void relaxed_levels(const int *starts, const int *targets, volatile int *level, int n, int depth) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && level[i] == depth) {
        for (int edge = starts[i]; edge < starts[i + 1]; ++edge) {
            if (level[targets[edge]] == -1) {
                level[targets[edge]] = depth + 1;
            }
        }
    }
}
"""


def arguments(rng):
    starts = np.arange(0, 387, 3, dtype=np.int32)
    level = np.full(128, -1, np.int32)
    level[rng.permutation(128)[:40]] = 3
    return starts, rng.integers(0, 128, 384).astype(np.int32), level, 128, 3


def reference(starts, targets, level, n, depth):
    after = level.copy()
    reached = np.unique(targets.reshape(128, 3)[level == depth])
    after[reached[level[reached] == -1]] = depth + 1
    return {2: after}


CASES = (
    Case("plain_levels", cuda_cpp(__file__, SOURCE, "plain_levels"), 2, 64, arguments, defective=True),
    Case("relaxed_levels", cuda_cpp(__file__, SOURCE, "relaxed_levels"), 2, 64, arguments, reference),
)
