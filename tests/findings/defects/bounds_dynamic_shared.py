"""Dynamic shared memory of fewer bytes than the kernel's tile: the launch gave elements, not bytes."""

import numpy as np
from case import Case, backwards, cuda_cpp

SOURCE = r"""
__global__ void mirrored(const double *x, double *out) {
    extern __shared__ double tile[];
    const int t = threadIdx.x;
    tile[t] = x[t];  // finds: TW103
    __syncthreads();
    out[t] = tile[blockDim.x - 1 - t];  // finds: TW103
}
"""


def arguments(rng):
    return rng.random(64), np.zeros(64)


KERNEL = cuda_cpp(__file__, SOURCE, "mirrored")
CASES = (
    Case("dynamic_shared_in_elements", KERNEL, 1, 64, arguments, shared_bytes=64, defective=True),
    Case("dynamic_shared_in_bytes", KERNEL, 1, 64, arguments, backwards, shared_bytes=512),
)
