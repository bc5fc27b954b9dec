"""Two warps write the same bytes, each a different value; neighbouring bytes are nobody's business."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void same_bytes(const signed char *x, signed char *out) {
    __shared__ signed char flags[32];
    flags[threadIdx.x % 32] = x[threadIdx.x];  // finds: TW301
    __syncthreads();
    if (threadIdx.x < 32) {
        out[threadIdx.x] = flags[threadIdx.x];
    }
}

__global__ void own_bytes(const signed char *x, signed char *out) {
    __shared__ signed char flags[64];
    flags[threadIdx.x % 32 * 2 + threadIdx.x / 32] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32) {
        out[threadIdx.x] = flags[threadIdx.x * 2] + flags[threadIdx.x * 2 + 1];
    }
}
"""


def arguments(rng):
    return np.arange(64, dtype=np.int8), np.zeros(32, np.int8)


def reference(x, out):
    return {1: x[:32] + x[32:]}


CASES = (
    Case("same_bytes", cuda_cpp(__file__, SOURCE, "same_bytes"), 1, 64, arguments, defective=True),
    Case("own_bytes", cuda_cpp(__file__, SOURCE, "own_bytes"), 1, 64, arguments, reference),
)
