"""Lanes of a warp exchange through global memory as if they were in step."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void in_step(const int *x, int *scratch, int *out) {
    const int t = threadIdx.x;
    scratch[t] = x[t] + 1;  // finds: TW304
    out[t] = scratch[t ^ 1];
}

__global__ void synchronised(const int *x, int *scratch, int *out) {
    const int t = threadIdx.x;
    scratch[t] = x[t] + 1;
    __syncwarp();
    out[t] = scratch[t ^ 1];
}
"""


def arguments(rng):
    return rng.permutation(64).astype(np.int32), np.zeros(64, np.int32), np.zeros(64, np.int32)


def reference(x, scratch, out):
    return {1: x + 1, 2: x[np.arange(64) ^ 1] + 1}


CASES = (
    Case("global_lanes_in_step", cuda_cpp(__file__, SOURCE, "in_step"), 1, 64, arguments, defective=True),
    Case("global_lanes_synchronised", cuda_cpp(__file__, SOURCE, "synchronised"), 1, 64, arguments, reference),
)
