"""An index before the first element wraps to a huge unsigned one, and one comparison guards both ends."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void unsigned_guard(const int *x, int *out, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int sum = 0;
        for (unsigned d = 0; d < 5; ++d) {
            const unsigned at = i + d - 2;
            if (at < n) {
                sum += x[at];
            }
        }
        out[i] = sum;
    }
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 83).astype(np.int32), np.zeros(83, np.int32), 83


def reference(x, out, n):
    return {1: np.convolve(x, np.ones(5, np.int32), "same")}


KERNEL = cuda_cpp(__file__, SOURCE, "unsigned_guard")
CASES = (Case("unsigned_guard", KERNEL, 3, 32, arguments, reference, unwritten=(1,)),)
