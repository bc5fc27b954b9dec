"""threadFenceReduction: the block that draws the last ticket sums what all blocks left, ordered by fences."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__device__ int block_sum(int value, int *shared) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            shared[threadIdx.x] += shared[threadIdx.x + half];
        }
        __syncthreads();
    }
    return shared[0];
}

__global__ void fence_reduction(const int *x, int n, volatile int *partial, unsigned *tickets, int *total) {
    __shared__ int shared[64];
    __shared__ bool last;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int sum = block_sum(i < n ? x[i] : 0, shared);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(tickets, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence();
        const int all = block_sum(threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0, shared);
        if (threadIdx.x == 0) {
            *total = all;
            *tickets = 0;
        }
    }
}
"""


def arguments(rng):
    x = rng.integers(-100, 100, 500).astype(np.int32)
    return x, x.size, np.zeros(8, np.int32), np.zeros(1, np.uint32), np.zeros(1, np.int32)


def reference(x, n, partial, tickets, total):
    return {2: np.pad(x, (0, 12)).reshape(8, 64).sum(axis=1), 3: tickets, 4: [x.sum()]}


KERNEL = cuda_cpp(__file__, SOURCE, "fence_reduction")
CASES = (Case("fence_reduction", KERNEL, 8, 64, arguments, reference, unwritten=(2, 4)),)
