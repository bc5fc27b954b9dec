"""A matrix changes while a box of it is copied to shared memory: before its mbarrier's phase has completed."""

import numpy as np
from case import Case, cuda_cpp

from tilewright.gpu.tensor_maps import TensorMap

SOURCE = r"""
#include "mbarriers.cuh"

template <bool awaited>
__global__ void takes_box(const __grid_constant__ TensorMap map, int *x, int *out) {
    __shared__ alignas(128) int tile[32];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) INIT(&bar, 1);
    __syncthreads();
    if (t == 0) {
        ARRIVE_AND_EXPECT(&bar, 128);
        LOAD_BOX(tile, map, 2, 4, &bar);
    }
    x[t] += 1;  // of the first two rows, where the box is not
    if (awaited) AWAIT(&bar, 0);
    __syncthreads();
    if (t % 8 > 3) x[16 + t] = 0;  // finds: TW306
    AWAIT(&bar, 0);
    out[t] = tile[t];
    out[16 + t] = tile[16 + t];
}
"""


def numbers(rng):
    """A map of boxes of 8 x 4 of the 10 x 8 numbers, these, and room for a box."""
    x = rng.integers(1, 99, (10, 8)).astype(np.int32)
    return TensorMap(x, (8, 4)), x, np.zeros(32, np.int32)


def of_box(given, x, out):
    """The box as it was, and the matrix without its first two rows of four."""
    after = x.copy()
    after[:2] += 1
    after[2:4, 4:] = 0
    return {1: after, 2: x[2:, 4:].ravel()}


CASES = (
    Case("box_is_read", cuda_cpp(__file__, SOURCE, "takes_box<false>"), 1, 16, numbers, defective=True),
    Case("box_was_read", cuda_cpp(__file__, SOURCE, "takes_box<true>"), 1, 16, numbers, of_box),
)
