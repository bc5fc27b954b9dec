"""libcu++: blocks hand a buffer on with cuda::atomic_ref, by a store that releases and a load that acquires."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda/atomic>

__global__ void atomic_ref(const int *x, int *chain, int *turn) {
    cuda::atomic_ref<int, cuda::thread_scope_device> whose(*turn);
    if (threadIdx.x == 0) {
        while (whose.load(cuda::memory_order_acquire) != blockIdx.x) {
        }
    }
    __syncthreads();
    chain[threadIdx.x] = 2 * chain[threadIdx.x] + x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        whose.store(blockIdx.x + 1, cuda::memory_order_release);
    }
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 5 * 48).astype(np.int32), np.zeros(48, np.int32), np.zeros(1, np.int32)


def reference(x, chain, turn):
    return {1: 2 ** np.arange(4, -1, -1) @ x.reshape(5, 48), 2: [5]}


KERNEL = cuda_cpp(__file__, SOURCE, "atomic_ref")
CASES = (Case("atomic_ref", KERNEL, 5, 48, arguments, reference),)
