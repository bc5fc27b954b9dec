"""An assertion about an input that does not hold for some thread."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void reciprocals(const int *x, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        assert(x[i] != 0 && "no reciprocal of zero");  // finds: TW801
        out[i] = 1.0f / x[i];
    }
}
"""


def arguments(rng):
    x = rng.integers(1, 99, 100).astype(np.int32)
    x[70] = 0
    return x, np.zeros(100, np.float32), 100


def without_zero(rng):
    x, out, n = arguments(rng)
    return np.where(x == 0, 1, x).astype(np.int32), out, n


def reference(x, out, n):
    return {1: np.float32(1) / x.astype(np.float32)}


KERNEL = cuda_cpp(__file__, SOURCE, "reciprocals")
CASES = (
    Case("zero", KERNEL, 4, 32, arguments, defective=True),
    Case("no_zero", KERNEL, 4, 32, without_zero, reference),
)
