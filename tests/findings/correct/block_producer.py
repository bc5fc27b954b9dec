"""Producer and consumer blocks: a volatile flag between two fences hands a buffer from one block to the next."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void block_producer(const int *x, int *buffer, volatile int *ready, int *out) {
    const int pair = blockIdx.x / 2, t = threadIdx.x, i = pair * blockDim.x + t;
    if (blockIdx.x % 2 == 0) {
        buffer[i] = 3 * x[i];
        __threadfence();
        __syncthreads();
        if (t == 0) {
            ready[pair] = 1;
        }
    } else {
        if (t == 0) {
            while (ready[pair] == 0) {
            }
            __threadfence();
        }
        __syncthreads();
        out[i] = buffer[pair * blockDim.x + blockDim.x - 1 - t] + 1;
    }
}
"""


def arguments(rng):
    x = rng.integers(-99, 99, 192).astype(np.int32)
    return x, np.zeros(192, np.int32), np.zeros(3, np.int32), np.zeros(192, np.int32)


def reference(x, buffer, ready, out):
    return {1: 3 * x, 2: [1, 1, 1], 3: (3 * x).reshape(3, 64)[:, ::-1].ravel() + 1}


KERNEL = cuda_cpp(__file__, SOURCE, "block_producer")
CASES = (Case("block_producer", KERNEL, 6, 64, arguments, reference, unwritten=(1, 3)),)
