"""A flag hands a buffer to another block by a release and an acquire whose scope is one block."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda/atomic>

__global__ void hand_over(const int *x, int *buffer, int *flag, int *out) {
    cuda::atomic_ref<int, cuda::SCOPE> ready(*flag);
    const int t = threadIdx.x;
    if (blockIdx.x == 0) {
        buffer[t] = x[t] + 1;  // finds: TW303
        __syncthreads();
        if (t == 0) {
            ready.store(1, cuda::memory_order_release);  // finds: TW303
        }
    } else {
        while (t == 0 && ready.load(cuda::memory_order_acquire) == 0) {
        }
        __syncthreads();
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
    cuda_cpp(__file__, SOURCE, "hand_over", f"-DSCOPE=thread_scope_{one}") for one in ("block", "device")
)
CASES = (
    Case("flag_of_block_scope", OF_BLOCK, 2, 64, arguments, defective=True),
    Case("flag_of_device_scope", OF_DEVICE, 2, 64, arguments, reference),
)
