"""A block of 128 threads in z, where 64 are the most."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void depths(int *out) {  // finds: TW502
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    out[z] = z;
}
"""


def arguments(rng):
    return (np.zeros(128, np.int32),)


def reference(out):
    return {0: np.arange(128)}


KERNEL = cuda_cpp(__file__, SOURCE, "depths")
CASES = (
    Case("block_of_128_in_z", KERNEL, (1, 1, 1), (1, 1, 128), arguments, defective=True),
    Case("block_of_64_in_z", KERNEL, (1, 1, 2), (1, 1, 64), arguments, reference),
)
