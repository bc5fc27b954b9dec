"""Exclusive scan after Blelloch: a sweep up a tree in dynamic shared memory, and one down it."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void scan_blelloch(const float *x, float *out, int n) {
    extern __shared__ float tree[];
    const int t = threadIdx.x;
    tree[2 * t] = x[2 * t];
    tree[2 * t + 1] = x[2 * t + 1];
    int shift = 1;
    for (int width = n / 2; width > 0; width /= 2, shift *= 2) {
        __syncthreads();
        if (t < width) {
            tree[shift * (2 * t + 2) - 1] += tree[shift * (2 * t + 1) - 1];
        }
    }
    if (t == 0) {
        tree[n - 1] = 0.0f;
    }
    for (int width = 1; width < n; width *= 2) {
        shift /= 2;
        __syncthreads();
        if (t < width) {
            const int left = shift * (2 * t + 1) - 1, right = shift * (2 * t + 2) - 1;
            const float before = tree[left];
            tree[left] = tree[right];
            tree[right] += before;
        }
    }
    __syncthreads();
    out[2 * t] = tree[2 * t];
    out[2 * t + 1] = tree[2 * t + 1];
}
"""


def arguments(rng):
    return rng.integers(-9, 10, 256).astype(np.float32), np.zeros(256, np.float32), 256


def reference(x, out, n):
    return {1: np.cumsum(x) - x}


KERNEL = cuda_cpp(__file__, SOURCE, "scan_blelloch")
CASES = (Case("scan_blelloch", KERNEL, 1, 128, arguments, reference, shared_bytes=1024, unwritten=(1,)),)
