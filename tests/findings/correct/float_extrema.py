"""Smallest and largest float of an array by atomics, and a float sum by a loop of compare-and-swap."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__device__ void atomic_larger(float *at, float value) {
    int *bits = reinterpret_cast<int *>(at);
    int seen = atomicAdd(bits, 0);
    while (__int_as_float(seen) < value) {
        const int before = atomicCAS(bits, seen, __float_as_int(value));
        if (before == seen) {
            break;
        }
        seen = before;
    }
}

__global__ void float_extrema(const float *x, int n, float *largest, int *smallest, double *sum) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomic_larger(largest, x[i]);
        atomicMin(smallest, static_cast<int>(x[i]));
        atomicAdd(sum, static_cast<double>(x[i]));
    }
}
"""


def arguments(rng):
    x = rng.integers(-999, 999, 200).astype(np.float32)
    return x, 200, np.full(1, -1e9, np.float32), np.full(1, 10**9, np.int32), np.zeros(1)


def reference(x, n, largest, smallest, total):
    return {2: [x.max()], 3: [x.min()], 4: [x.sum(dtype=np.float64)]}


KERNEL = cuda_cpp(__file__, SOURCE, "float_extrema")
CASES = (Case("float_extrema", KERNEL, 4, 64, arguments, reference),)
