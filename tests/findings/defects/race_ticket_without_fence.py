"""The ticket pattern without its fence: the last block may draw its ticket before it can see the others' sums."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void no_fence(const int *x, int *partial, unsigned *tickets, int *total) {
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = x[blockIdx.x] * x[blockIdx.x];  // finds: TW303
        if (atomicAdd(tickets, 1u) == gridDim.x - 1) {
            int sum = 0;
            for (int i = 0; i < gridDim.x; ++i) {
                sum += partial[i];
            }
            *total = sum;
        }
    }
}

__global__ void fence(const int *x, int *partial, unsigned *tickets, int *total) {
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = x[blockIdx.x] * x[blockIdx.x];
        __threadfence();
        if (atomicAdd(tickets, 1u) == gridDim.x - 1) {
            __threadfence();
            int sum = 0;
            for (int i = 0; i < gridDim.x; ++i) {
                sum += partial[i];
            }
            *total = sum;
        }
    }
}
"""


def arguments(rng):
    x = rng.integers(1, 99, 7).astype(np.int32)
    return x, np.zeros(7, np.int32), np.zeros(1, np.uint32), np.zeros(1, np.int32)


def reference(x, partial, tickets, total):
    return {1: x * x, 2: [7], 3: [(x * x).sum()]}


CASES = (
    Case("ticket_without_fence", cuda_cpp(__file__, SOURCE, "no_fence"), 7, 32, arguments, defective=True),
    Case("ticket_with_fence", cuda_cpp(__file__, SOURCE, "fence"), 7, 32, arguments, reference),
)
