"""A call through an entry of a table of functions that nothing has set."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
typedef float (*Function)(float);

__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ __noinline__ float square(float x) { return x * x; }
__device__ Function table[4] = {twice, square};

__global__ void apply(float *x, int which) {
    x[threadIdx.x] = table[which](x[threadIdx.x]);  // finds: TW110
}
"""


def arguments(rng):
    return rng.random(32, dtype=np.float32), 2


def within(rng):
    return rng.random(32, dtype=np.float32), 1


def reference(x, which):
    return {0: x * x}


KERNEL = cuda_cpp(__file__, SOURCE, "apply")
CASES = (
    Case("unset_function", KERNEL, 1, 32, arguments, defective=True),
    Case("set_function", KERNEL, 1, 32, within, reference),
)
