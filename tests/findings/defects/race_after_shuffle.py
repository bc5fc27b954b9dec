"""A shuffle taken for a barrier: it waits for the lanes that its mask names, and orders no memory."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void shuffled(const int *x, int *out) {
    __shared__ int s[32];
    const int lane = threadIdx.x;
    s[lane] = x[lane];  // finds: TW304
    const int last = __shfl_sync(0xffffffffu, x[lane], 31);
    out[lane] = s[31 - lane] + last;
}

__global__ void synchronised(const int *x, int *out) {
    __shared__ int s[32];
    const int lane = threadIdx.x;
    s[lane] = x[lane];
    const int last = __shfl_sync(0xffffffffu, x[lane], 31);
    __syncwarp();
    out[lane] = s[31 - lane] + last;
}
"""


def arguments(rng):
    return rng.permutation(32).astype(np.int32), np.zeros(32, np.int32)


def reference(x, out):
    return {1: x[::-1] + x[31]}


CASES = (
    Case("after_a_shuffle", cuda_cpp(__file__, SOURCE, "shuffled"), 1, 32, arguments, defective=True),
    Case("after_a_syncwarp", cuda_cpp(__file__, SOURCE, "synchronised"), 1, 32, arguments, reference),
)
