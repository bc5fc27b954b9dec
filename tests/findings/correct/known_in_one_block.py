"""A shared word that one block sets and reads; a compiler may load it in every block and not use it there."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void known_in_one_block(const int *x, int *out) {
    __shared__ int bonus;
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (blockIdx.x == 0 && t == 0) {
        bonus = x[0] + 5;
    }
    __syncthreads();
    out[i] = x[i] + (blockIdx.x == 0 ? bonus : 1);
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 96).astype(np.int32), np.zeros(96, np.int32)


def reference(x, out):
    return {1: x + np.where(np.arange(96) < 32, x[0] + 5, 1)}


KERNEL = cuda_cpp(__file__, SOURCE, "known_in_one_block")
CASES = (Case("known_in_one_block", KERNEL, 3, 32, arguments, reference, unwritten=(1,)),)
