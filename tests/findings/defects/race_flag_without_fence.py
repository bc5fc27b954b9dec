"""A block waits for another's flag, but nothing orders the buffer before the flag."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void hand_over(const int *x, int *buffer, volatile int *ready, int *out) {
    const int lane = threadIdx.x;
    if (blockIdx.x == 0) {
        buffer[lane] = x[lane] + 1;  // finds: TW303
        FENCE;
        __syncthreads();
        if (lane == 0) {
            *ready = 1;
        }
    } else {
        while (*ready == 0) {
        }
        __threadfence();
        out[lane] = buffer[lane];
    }
}
"""


def arguments(rng):
    arrays = np.zeros(32, np.int32), np.zeros(1, np.int32), np.zeros(32, np.int32)
    return rng.integers(1, 99, 32).astype(np.int32), *arrays


def reference(x, buffer, ready, out):
    return {1: x + 1, 2: [1], 3: x + 1}


CASES = (
    Case("flag_without_fence", cuda_cpp(__file__, SOURCE, "hand_over", "-DFENCE="), 2, 32, arguments, defective=True),
    Case(
        "flag_with_fence",
        cuda_cpp(__file__, SOURCE, "hand_over", "-DFENCE=__threadfence()"),
        2,
        32,
        arguments,
        reference,
    ),
)
