"""Every thread of every warp takes the lock, lanes of one warp after each other: what it guards is plain memory."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void thread_lock(const int *x, int *lock, int *sum, int *count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool waiting = true;
    while (waiting) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *sum += x[i];
            *count += 1;
            __threadfence();
            atomicExch(lock, 0);
            waiting = false;
        }
    }
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 80).astype(np.int32), *(np.zeros(1, np.int32) for _ in range(3))


def reference(x, lock, total, count):
    return {1: [0], 2: [x.sum()], 3: [80]}


KERNEL = cuda_cpp(__file__, SOURCE, "thread_lock")
CASES = (Case("thread_lock", KERNEL, 2, 40, arguments, reference),)
