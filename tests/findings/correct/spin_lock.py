"""Mutual exclusion between blocks by compare-and-swap: one thread a warp takes the lock and updates plain memory."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void spin_lock(const int *x, int *lock, int *sum, int *largest) {
    if (threadIdx.x % 32 == 0) {
        const int value = x[(blockIdx.x * blockDim.x + threadIdx.x) / 32];
        while (atomicCAS(lock, 0, 1) != 0) {
        }
        __threadfence();
        *sum += value;
        if (value > *largest) {
            *largest = value;
        }
        __threadfence();
        atomicExch(lock, 0);
    }
}
"""


def arguments(rng):
    return rng.integers(-999, 999, 16).astype(np.int32), *(np.array([v], np.int32) for v in (0, 0, -1000))


def reference(x, lock, total, largest):
    return {1: lock, 2: [x.sum()], 3: [x.max()]}


KERNEL = cuda_cpp(__file__, SOURCE, "spin_lock")
CASES = (Case("spin_lock", KERNEL, 4, 128, arguments, reference),)
