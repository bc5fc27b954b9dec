"""Histogram with a byte counter of its own for each thread and bin, side by side in shared memory; no atomics."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
constexpr int THREADS = 64, BINS = 16;

__global__ void histogram_private(const unsigned char *values, int count, unsigned *partial) {
    __shared__ unsigned char own[BINS][THREADS];
    const int t = threadIdx.x;
    for (int bin = 0; bin < BINS; ++bin) {
        own[bin][t] = 0;
    }
    for (int i = blockIdx.x * THREADS + t; i < count; i += gridDim.x * THREADS) {
        own[values[i] % BINS][t] += 1;
    }
    __syncthreads();
    if (t < BINS) {
        unsigned sum = 0;
        for (int i = 0; i < THREADS; ++i) {
            sum += own[t][(i + t) % THREADS];
        }
        partial[blockIdx.x * BINS + t] = sum;
    }
}
"""


def arguments(rng):
    values = rng.integers(0, 256, 640).astype(np.uint8)
    return values, values.size, np.zeros((2, 16), np.uint32)


def reference(values, count, partial):
    blocks = (values % 16).reshape(5, 2, 64).transpose(1, 0, 2).reshape(2, 320)
    return {2: [np.bincount(block, minlength=16) for block in blocks]}


KERNEL = cuda_cpp(__file__, SOURCE, "histogram_private")
CASES = (Case("histogram_private", KERNEL, 2, 64, arguments, reference, unwritten=(2,)),)
