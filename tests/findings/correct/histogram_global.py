"""Histogram straight in global memory by atomics."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void histogram_global(const unsigned char *text, int length, unsigned *counts) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += gridDim.x * blockDim.x) {
        const int letter = text[i] - 'a';
        if (letter >= 0 && letter < 26) {
            atomicAdd(&counts[letter], 1u);
        }
    }
}
"""


def arguments(rng):
    text = rng.integers(90, 130, 777).astype(np.uint8)
    return text, text.size, np.zeros(26, np.uint32)


def reference(text, length, counts):
    return {2: np.bincount(text, minlength=130)[97:123]}


KERNEL = cuda_cpp(__file__, SOURCE, "histogram_global")
CASES = (Case("histogram_global", KERNEL, 3, 96, arguments, reference),)
