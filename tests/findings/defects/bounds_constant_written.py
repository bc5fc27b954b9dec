"""A store into constant memory, through a pointer whose `const` was cast away and which the compiler cannot follow."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__constant__ int table[32] = {1, 2, 3, 4};
__device__ int own_table[32] = {1, 2, 3, 4};

__global__ void into_constant(int *out) {
    const int t = threadIdx.x;
    int *at = const_cast<int *>(table) + t;
    asm volatile("" : "+l"(at));
    *at = 7;  // finds: TW106
    out[t] = t;
}

__global__ void into_global(int *out) {
    const int t = threadIdx.x;
    own_table[t] = 7;
    out[t] = own_table[t] + t;
}
"""


def arguments(rng):
    return (np.zeros(32, np.int32),)


def reference(out):
    return {0: 7 + np.arange(32)}


CASES = (
    Case("constant_written", cuda_cpp(__file__, SOURCE, "into_constant"), 1, 32, arguments, defective=True),
    Case("global_written", cuda_cpp(__file__, SOURCE, "into_global"), 1, 32, arguments, reference),
)
