"""A standard deviation as the root of a difference that rounding makes negative."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void may_be_negative(const float *squares, const float *means, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = sqrtf(squares[i] - means[i] * means[i]);  // finds: TW603
    }
}

__global__ void never_negative(const float *squares, const float *means, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = sqrtf(fmaxf(squares[i] - means[i] * means[i], 0.0f));
    }
}
"""


def arguments(rng):
    means = rng.random(60, np.float32)
    squares = means * means + rng.random(60, np.float32)
    squares[11] = np.nextafter(means[11] * means[11], np.float32(0)) * np.float32(0.999)
    return squares, means, np.zeros(60, np.float32), 60


def reference(squares, means, out, n):
    return {2: np.sqrt(np.maximum(squares - means * means, 0))}


CASES = (
    Case("root_of_negative", cuda_cpp(__file__, SOURCE, "may_be_negative"), 2, 32, arguments, defective=True),
    Case("root_of_positive", cuda_cpp(__file__, SOURCE, "never_negative"), 2, 32, arguments, reference, rtol=1e-4),
)
