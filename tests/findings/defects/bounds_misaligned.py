"""Four floats loaded at once from an address that is a multiple of four bytes only."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void misaligned(const float *x, float *sums, int n) {
    const int i = threadIdx.x;
    const float4 four = *reinterpret_cast<const float4 *>(x + 1 + 4 * i);  // finds: TW102
    sums[i] = four.x + four.y + four.z + four.w + (i == 0 ? x[0] + x[n - 3] + x[n - 2] + x[n - 1] : 0.0f);
}

__global__ void aligned(const float *x, float *sums, int n) {
    const int i = threadIdx.x;
    const float4 four = *reinterpret_cast<const float4 *>(x + 4 * i);
    sums[i] = four.x + four.y + four.z + four.w;
}
"""


def arguments(rng):
    return rng.integers(-9, 9, 132).astype(np.float32), np.zeros(32, np.float32), 132


def exactly(rng):
    return rng.integers(-9, 9, 128).astype(np.float32), np.zeros(32, np.float32), 128


def reference(x, sums, n):
    return {1: x.reshape(32, 4).sum(axis=1)}


CASES = (
    Case("misaligned", cuda_cpp(__file__, SOURCE, "misaligned"), 1, 32, arguments, defective=True),
    Case("aligned", cuda_cpp(__file__, SOURCE, "aligned"), 1, 32, exactly, reference),
)
