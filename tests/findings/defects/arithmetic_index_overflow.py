"""A 32-bit index into an image of more than 2^31 bytes: rows far down have negative indices."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void narrow(unsigned char *image, int *marked, int first_row, int width) {
    const int i = threadIdx.x;
    image[(first_row + i) * width] = 1;  // finds: TW101, TW602
    marked[i] = first_row + i;
}

__global__ void wide(unsigned char *image, int *marked, int first_row, int width) {
    const int i = threadIdx.x;
    image[(long long)(first_row + i) * width] = 1;
    marked[i] = first_row + i;
}
"""


def arguments(rng):
    """An image that takes no memory on the host, and a page a row where it is written: the last 40 rows."""
    image = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (60_000, 40_000), (0, 0))
    return image, np.zeros(40, np.int32), 59_960, 40_000


def reference(image, marked, first_row, width):
    return {1: np.arange(59_960, 60_000)}


CASES = (
    Case("index_of_32_bits", cuda_cpp(__file__, SOURCE, "narrow"), 1, 40, arguments, unwritten=(0,), defective=True),
    Case("index_of_64_bits", cuda_cpp(__file__, SOURCE, "wide"), 1, 40, arguments, reference, unwritten=(0,)),
)
