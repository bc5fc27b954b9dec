"""Named barriers: each pair of warps meets at a barrier of its own, as often as it needs to."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void named_barriers(const int *x, int *out) {
    __shared__ int rows[2][64];
    const int pair = threadIdx.x / 64, t = threadIdx.x % 64;
    rows[pair][t] = x[threadIdx.x];
    for (int round = 0; round <= 3 * pair; ++round) {
        asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
        const int value = rows[pair][63 - t];
        asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
        rows[pair][t] = value + 1;
    }
    out[threadIdx.x] = rows[pair][t];
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 128).astype(np.int32), np.zeros(128, np.int32)


def reference(x, out):
    return {1: np.concatenate([x[:64][::-1] + 1, x[64:] + 4])}


KERNEL = cuda_cpp(__file__, SOURCE, "named_barriers")
CASES = (Case("named_barriers", KERNEL, 1, 128, arguments, reference, unwritten=(1,)),)
