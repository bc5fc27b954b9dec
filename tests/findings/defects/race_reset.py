"""One warp sets a block's counter to zero while the others already count, without a barrier in between."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void counts_at_once(const int *x, int *counts) {
    if (threadIdx.x == 0) {
        counts[blockIdx.x] = 0;
    }
    if (threadIdx.x >= 32 && x[blockIdx.x * blockDim.x + threadIdx.x] > 0) {
        atomicAdd(&counts[blockIdx.x], 1);  // finds: TW302
    }
}

__global__ void counts_after_a_barrier(const int *x, int *counts) {
    if (threadIdx.x == 0) {
        counts[blockIdx.x] = 0;
    }
    __syncthreads();
    if (threadIdx.x >= 32 && x[blockIdx.x * blockDim.x + threadIdx.x] > 0) {
        atomicAdd(&counts[blockIdx.x], 1);
    }
}
"""


def arguments(rng):
    return rng.integers(-9, 9, 192).astype(np.int32), np.full(2, 7, np.int32)


def reference(x, counts):
    return {1: (x.reshape(2, 96)[:, 32:] > 0).sum(axis=1)}


KERNEL = cuda_cpp(__file__, SOURCE, "counts_after_a_barrier")
CASES = (
    Case("reset_at_once", cuda_cpp(__file__, SOURCE, "counts_at_once"), 2, 96, arguments, defective=True),
    Case("reset_before_a_barrier", KERNEL, 2, 96, arguments, reference),
)
