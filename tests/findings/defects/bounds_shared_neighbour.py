"""An index runs from one shared array into the next: inside shared memory, outside the variable."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void two_arrays(const int *x, int *out) {
    __shared__ int first[FIRST];
    __shared__ int second[64];
    const int t = threadIdx.x;
    second[t] = 0;
    __syncthreads();
    first[t] = x[t];  // finds: TW103
    __syncthreads();
    out[t] = first[t % 32] + second[63 - t];
}
"""


def arguments(rng):
    return rng.integers(-9, 9, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: np.tile(x[:32], 2)}


CASES = (
    Case("into_the_next", cuda_cpp(__file__, SOURCE, "two_arrays", "-DFIRST=32"), 1, 64, arguments, defective=True),
    Case("into_its_own", cuda_cpp(__file__, SOURCE, "two_arrays", "-DFIRST=64"), 1, 64, arguments, reference),
)
