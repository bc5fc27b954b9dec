"""A literal without its `f`: the whole expression becomes double."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void double_literal(const float *x, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = 0.3 * x[i] + 1.7;  // finds: TW601
    }
}

__global__ void float_literal(const float *x, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = 0.3f * x[i] + 1.7f;
    }
}
"""


def arguments(rng):
    return rng.random(50, np.float32), np.zeros(50, np.float32), 50


def reference(x, out, n):
    return {1: np.float32(0.3) * x + np.float32(1.7)}


CASES = (
    Case("double_literal", cuda_cpp(__file__, SOURCE, "double_literal"), 2, 32, arguments, defective=True),
    Case("float_literal", cuda_cpp(__file__, SOURCE, "float_literal"), 2, 32, arguments, reference, rtol=1e-6),
)
