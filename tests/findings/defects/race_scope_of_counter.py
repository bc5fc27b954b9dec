"""Blocks count in one word by atomics whose scope is one block; in a word of each block they are right."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
template <bool shared>
__global__ void counts(const int *x, int *counts, int *total) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > 0) {
        atomicAdd_block(shared ? total : counts + blockIdx.x, 1);  // finds: TW303
    }
    __syncthreads();
    if (!shared && threadIdx.x == 0) {
        atomicAdd(total, counts[blockIdx.x]);
    }
}
"""


def arguments(rng):
    return rng.integers(-9, 9, 3 * 64).astype(np.int32), np.zeros(3, np.int32), np.zeros(1, np.int32)


def reference(x, counts, total):
    each = (x.reshape(3, 64) > 0).sum(axis=1)
    return {1: each, 2: [each.sum()]}


CASES = (
    Case("counter_of_block_scope", cuda_cpp(__file__, SOURCE, "counts<true>"), 3, 64, arguments, defective=True),
    Case("counters_of_blocks", cuda_cpp(__file__, SOURCE, "counts<false>"), 3, 64, arguments, reference),
)
