"""More dynamic shared memory than a block of the GPU can have."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void reversed(const int *x, int *out, int n) {  // finds: TW505
    extern __shared__ int tile[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        tile[i] = x[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out[i] = tile[n - 1 - i];
    }
}
"""


def arguments(rng):
    return rng.integers(1, 99, 512).astype(np.int32), np.zeros(512, np.int32), 512


def reference(x, out, n):
    return {1: x[::-1]}


KERNEL = cuda_cpp(__file__, SOURCE, "reversed")
CASES = (
    Case("too_much_dynamic_shared", KERNEL, 1, 128, arguments, shared_bytes=300_000, defective=True),
    Case("enough_dynamic_shared", KERNEL, 1, 128, arguments, reference, shared_bytes=2048),
)
