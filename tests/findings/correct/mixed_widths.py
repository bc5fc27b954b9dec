"""Bytes that threads write one by one are read as words, and words as pairs, by other threads."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void mixed_widths(const unsigned char *bytes, unsigned *words, unsigned long long *pairs) {
    __shared__ __align__(16) unsigned char shared[256];
    const int t = threadIdx.x;
    shared[t] = bytes[t];
    __syncthreads();
    unsigned *as_words = reinterpret_cast<unsigned *>(shared);
    if (t < 64) {
        const unsigned word = as_words[63 - t];
        words[t] = word;
    }
    __syncthreads();
    if (t < 64) {
        as_words[t] += 0x01010101u;
    }
    __syncthreads();
    if (t < 32) {
        pairs[t] = reinterpret_cast<const unsigned long long *>(shared)[t];
    } else if (t < 48) {
        const uint4 four = reinterpret_cast<const uint4 *>(shared)[t - 32];
        words[t + 32] = four.x ^ four.y ^ four.z ^ four.w;
    }
}
"""


def arguments(rng):
    return rng.integers(0, 255, 256).astype(np.uint8), np.zeros(80, np.uint32), np.zeros(32, np.uint64)


def reference(bytes_, words, pairs):
    after = bytes_ + np.uint8(1)
    four = np.bitwise_xor.reduce(after.view(np.uint32).reshape(16, 4), axis=1)
    return {1: np.concatenate([bytes_.view(np.uint32)[::-1], four]), 2: after.view(np.uint64)}


KERNEL = cuda_cpp(__file__, SOURCE, "mixed_widths")
CASES = (Case("mixed_widths", KERNEL, 1, 256, arguments, reference, unwritten=(1, 2)),)
