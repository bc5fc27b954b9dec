"""One function reverses rows wherever they lie: in shared, local and global memory, through generic pointers."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__device__ __noinline__ void reverse(int *row, int count) {
    for (int i = 0; i < count / 2; ++i) {
        const int first = row[i];
        row[i] = row[count - 1 - i];
        row[count - 1 - i] = first;
    }
}

__global__ void generic_pointers(int *rows, int *sums) {
    __shared__ int shared[32][6];
    int local[6];
    const int t = threadIdx.x;
    int *row = rows + 6 * t;
    for (int i = 0; i < 6; ++i) {
        local[i] = shared[t][i] = row[i];
    }
    reverse(row, 6);
    reverse(local, 5);
    reverse(shared[t], 4);
    int sum = 0;
    for (int i = 0; i < 6; ++i) {
        sum += (i + 1) * (local[i] + 10 * shared[t][i]);
    }
    sums[t] = sum;
}
"""


def arguments(rng):
    return rng.integers(-99, 99, (32, 6)).astype(np.int32), np.zeros(32, np.int32)


def reference(rows, sums):
    local, shared = rows.copy(), rows.copy()
    local[:, :5] = rows[:, 4::-1]
    shared[:, :4] = rows[:, 3::-1]
    return {0: rows[:, ::-1], 1: (local + 10 * shared) @ np.arange(1, 7)}


KERNEL = cuda_cpp(__file__, SOURCE, "generic_pointers")
CASES = (Case("generic_pointers", KERNEL, 1, 32, arguments, reference, unwritten=(1,)),)
