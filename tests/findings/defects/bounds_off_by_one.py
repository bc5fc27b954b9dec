"""`<=` for `<` in the guard, and a left neighbour that the first element does not have."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void off_by_one(const int *x, int *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) {
        const int left = x[i - 1];  // finds: TW101
        const int own = x[i];  // finds: TW101
        out[i] = own - left;  // finds: TW101
    }
}

__global__ void within(const int *x, int *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const int left = i > 0 ? x[i - 1] : 0;
        const int own = x[i];
        out[i] = own - left;
    }
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 70).astype(np.int32), np.zeros(70, np.int32), 70


def reference(x, out, n):
    return {1: np.diff(x, prepend=0)}


CASES = (
    Case("off_by_one", cuda_cpp(__file__, SOURCE, "off_by_one"), 3, 32, arguments, defective=True),
    Case("within", cuda_cpp(__file__, SOURCE, "within"), 3, 32, arguments, reference),
)
