"""Blocks share the k of one product, and each stores its own part as if it were the whole."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
template <bool SHARED>
__global__ void row_times_matrix(const int *a, const int *b, int *c, int n, int k) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= n)
        return;
    int sum = 0;
    for (int i = blockIdx.y; i < k; i += gridDim.y)
        sum += a[i] * b[i * n + column];
    if (SHARED)
        atomicAdd(&c[column], sum);
    else
        c[column] = sum;  // finds: TW303
}
"""


def arguments(rng):
    return (
        rng.integers(-9, 9, 40).astype(np.int32),
        rng.integers(-9, 9, (40, 70)).astype(np.int32),
        np.zeros(70, np.int32),
        70,
        40,
    )


def reference(a, b, c, n, k):
    return {2: a @ b}


CASES = (
    Case("parts_stored", cuda_cpp(__file__, SOURCE, "row_times_matrix<false>"), (3, 2), 32, arguments, defective=True),
    Case("parts_added", cuda_cpp(__file__, SOURCE, "row_times_matrix<true>"), (3, 2), 32, arguments, reference),
)
