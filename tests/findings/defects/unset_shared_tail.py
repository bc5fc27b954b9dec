"""A tree reduction of a block that the data fills only in part: the tail of its tree was never set."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__device__ void halve(float *tree) {
    for (int half = blockDim.x / 2; half >= 32; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            tree[threadIdx.x] += tree[threadIdx.x + half];  // finds: TW202
        }
    }
    __syncthreads();
}

__global__ void tail_unset(const float *x, float *out, int n) {
    __shared__ float tree[128];
    if (threadIdx.x < n) {
        tree[threadIdx.x] = x[threadIdx.x];
    }
    halve(tree);
    if (threadIdx.x < 32) {
        out[threadIdx.x] = tree[threadIdx.x];
    }
}

__global__ void tail_zero(const float *x, float *out, int n) {
    __shared__ float tree[128];
    tree[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : 0.0f;
    halve(tree);
    if (threadIdx.x < 32) {
        out[threadIdx.x] = tree[threadIdx.x];
    }
}
"""


def arguments(rng):
    return rng.integers(-9, 9, 100).astype(np.float32), np.zeros(32, np.float32), 100


def reference(x, out, n):
    return {1: np.pad(x, (0, 28)).reshape(4, 32).sum(axis=0)}


CASES = (
    Case("shared_tail_unset", cuda_cpp(__file__, SOURCE, "tail_unset"), 1, 128, arguments, defective=True),
    Case("shared_tail_zero", cuda_cpp(__file__, SOURCE, "tail_zero"), 1, 128, arguments, reference),
)
