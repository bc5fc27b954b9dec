"""Counts in a local array that was never set to zero. (Numba sets local arrays of Python kernels to zero by itself.)"""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__device__ int most_frequent(const int *row, int length, int *counts) {
    int best = 0;
    for (int j = 0; j < length; ++j) {
        best = max(best, counts[row[j]]);
    }
    return best;
}

__global__ void never_set(const int *rows, int length, int *most) {
    int counts[8];
    const int *row = rows + threadIdx.x * length;
    for (int j = 0; j < length; ++j) {
        counts[row[j]] += 1;  // finds: TW203
    }
    most[threadIdx.x] = most_frequent(row, length, counts);
}

__global__ void set_first(const int *rows, int length, int *most) {
    int counts[8] = {};
    const int *row = rows + threadIdx.x * length;
    for (int j = 0; j < length; ++j) {
        counts[row[j]] += 1;
    }
    most[threadIdx.x] = most_frequent(row, length, counts);
}
"""


def arguments(rng):
    return rng.integers(0, 8, (32, 19)).astype(np.int32), 19, np.zeros(32, np.int32)


def reference(rows, length, most):
    return {2: [np.bincount(row).max() for row in rows]}


CASES = (
    Case("local_never_set", cuda_cpp(__file__, SOURCE, "never_set"), 1, 32, arguments, defective=True),
    Case("local_set", cuda_cpp(__file__, SOURCE, "set_first"), 1, 32, arguments, reference),
)
