"""A block stores data after its fence, and another block reads them when it sees the flag."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
template <bool fenced>
__global__ void handed_over(const int *x, int *buffer, volatile int *ready, int *out) {
    const int lane = threadIdx.x;
    if (blockIdx.x == 0) {
        buffer[lane] = x[lane] + 1;
        if (!fenced) __threadfence();
        buffer[32 + lane] = x[lane] + 2;  // finds: TW303
        if (fenced) __threadfence();
        __syncthreads();
        if (lane == 0)
            *ready = 1;
    } else {
        while (*ready == 0) {
        }
        __threadfence();
        out[lane] = buffer[lane] + buffer[32 + lane];
    }
}
"""


def arguments(rng):
    arrays = np.zeros(64, np.int32), np.zeros(1, np.int32), np.zeros(32, np.int32)
    return rng.integers(1, 99, 32).astype(np.int32), *arrays


def reference(x, buffer, ready, out):
    return {2: [1], 3: 2 * x + 3}


CASES = (
    Case("behind_fence", cuda_cpp(__file__, SOURCE, "handed_over<false>"), 2, 32, arguments, defective=True),
    Case("before_fence", cuda_cpp(__file__, SOURCE, "handed_over<true>"), 2, 32, arguments, reference),
)
