"""A block is reversed through shared memory without a barrier between the store and the load."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void no_barrier(const int *x, int *out) {
    __shared__ int tile[64];
    tile[threadIdx.x] = x[threadIdx.x];  // finds: TW301
    out[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void barrier(const int *x, int *out) {
    __shared__ int tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
"""


def arguments(rng):
    return rng.permutation(64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: x[::-1]}


CASES = (
    Case("no_barrier", cuda_cpp(__file__, SOURCE, "no_barrier"), 1, 64, arguments, defective=True),
    Case("barrier", cuda_cpp(__file__, SOURCE, "barrier"), 1, 64, arguments, reference),
)
