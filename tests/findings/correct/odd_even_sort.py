"""Odd-even transposition sort of 16-bit keys in shared memory; neighbours' bytes share words."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void odd_even_sort(short *keys, int count) {
    extern __shared__ short shared[];
    const int t = threadIdx.x;
    for (int i = t; i < count; i += blockDim.x) {
        shared[i] = keys[i];
    }
    __syncthreads();
    for (int round = 0; round < count; ++round) {
        const int left = 2 * t + round % 2;
        if (left + 1 < count && shared[left] > shared[left + 1]) {
            const short larger = shared[left];
            shared[left] = shared[left + 1];
            shared[left + 1] = larger;
        }
        __syncthreads();
    }
    for (int i = t; i < count; i += blockDim.x) {
        keys[i] = shared[i];
    }
}
"""


def arguments(rng):
    return rng.integers(-500, 500, 77).astype(np.int16), 77


def reference(keys, count):
    return {0: np.sort(keys)}


KERNEL = cuda_cpp(__file__, SOURCE, "odd_even_sort")
CASES = (Case("odd_even_sort", KERNEL, 1, 64, arguments, reference, shared_bytes=2 * 77),)
