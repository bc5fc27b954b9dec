"""Order between blocks assumed: each block continues from what the block before it is thought to have stored."""

import numpy as np
from case import Case, cuda_cpp, numbers

SOURCE = r"""
__global__ void in_order(const int *x, int *sums) {
    if (threadIdx.x == 0) {
        const int before = blockIdx.x == 0 ? 0 : sums[blockIdx.x - 1];
        sums[blockIdx.x] = before + x[blockIdx.x];  // finds: TW303
    }
}

__global__ void on_its_own(const int *x, int *sums) {
    if (threadIdx.x == 0) {
        int before = 0;
        for (int i = 0; i < blockIdx.x; ++i) {
            before += x[i];
        }
        sums[blockIdx.x] = before + x[blockIdx.x];
    }
}
"""


def reference(x, sums):
    return {1: np.cumsum(x)}


CASES = (
    Case("blocks_in_order", cuda_cpp(__file__, SOURCE, "in_order"), 6, 32, numbers(6), defective=True),
    Case("blocks_on_their_own", cuda_cpp(__file__, SOURCE, "on_its_own"), 6, 32, numbers(6), reference),
)
