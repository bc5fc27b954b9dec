"""A store through a pointer to constant memory, which the compiler follows: it ends the kernel there."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__constant__ int table[32] = {1, 2, 3, 4};
__device__ int own_table[32] = {1, 2, 3, 4};

__global__ void into_constant(int *out) {  // finds: TW512
    const int t = threadIdx.x;
    int *const changed = (int *)table;
    changed[t] = 7;
    out[t] = changed[t] + t;
}

__global__ void into_global(int *out) {
    const int t = threadIdx.x;
    int *const changed = own_table;
    changed[t] = 7;
    out[t] = changed[t] + t;
}
"""


def arguments(rng):
    return (np.zeros(32, np.int32),)


def reference(out):
    return {0: 7 + np.arange(32)}


CASES = (
    Case("into_constant", cuda_cpp(__file__, SOURCE, "into_constant"), 1, 32, arguments, defective=True),
    Case("into_global", cuda_cpp(__file__, SOURCE, "into_global"), 1, 32, arguments, reference),
)
