"""A fence whose scope is one block does not release a buffer to other blocks, though the flag after it is an atomic."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void hand_over(const int *x, int *buffer, int *flag, int *out) {
    const int t = threadIdx.x;
    if (blockIdx.x == 0) {
        buffer[t] = x[t] + 1;  // finds: TW303
        FENCE;
        __syncthreads();
        if (t == 0) {
            atomicExch(flag, 1);
        }
    } else {
        while (t == 0 && atomicAdd(flag, 0) == 0) {
        }
        __syncthreads();
        __threadfence();
        out[t] = buffer[t];
    }
}
"""


def arguments(rng):
    arrays = np.zeros(64, np.int32), np.zeros(1, np.int32), np.zeros(64, np.int32)
    return rng.integers(1, 99, 64).astype(np.int32), *arrays


def reference(x, buffer, flag, out):
    return {1: x + 1, 2: [1], 3: x + 1}


OF_BLOCK, OF_DEVICE = (
    cuda_cpp(__file__, SOURCE, "hand_over", f"-DFENCE=__threadfence{one}()") for one in ("_block", "")
)
CASES = (
    Case("fence_of_block_scope", OF_BLOCK, 2, 64, arguments, defective=True),
    Case("fence_of_device_scope", OF_DEVICE, 2, 64, arguments, reference),
)
