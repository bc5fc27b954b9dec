"""Elements at pseudo-random places: the generator wraps in 32 bits on purpose, its high bits choose the element."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void random_gather(const int *x, int *out, int draws) {
    unsigned state = 747796405u * (blockIdx.x * blockDim.x + threadIdx.x) + 2891336453u;
    int sum = 0;
    for (int draw = 0; draw < draws; ++draw) {
        state = 1664525u * state + 1013904223u;
        sum += x[state >> 26];
        sum -= x[state & 63u];
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 64).astype(np.int32), np.zeros(96, np.int32), 9


def reference(x, out, draws):
    state = np.uint32(747796405) * np.arange(96, dtype=np.uint32) + np.uint32(2891336453)
    total = np.zeros(96, np.int32)
    for _ in range(draws):
        state = np.uint32(1664525) * state + np.uint32(1013904223)
        total += x[state >> np.uint32(26)] - x[state & np.uint32(63)]
    return {1: total}


KERNEL = cuda_cpp(__file__, SOURCE, "random_gather")
CASES = (Case("random_gather", KERNEL, 3, 32, arguments, reference, unwritten=(1,)),)
