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


def far_down(rng):
    """The last 40 rows of an image of 2.4 GB, of which only a corner is there: the narrow index leaves it backwards."""
    return np.zeros(4096, np.uint8), np.zeros(40, np.int32), 59_960, 40_000


def near_the_top(rng):
    return np.zeros(4096, np.uint8), np.zeros(40, np.int32), 60, 40


def reference(image, marked, first_row, width):
    rows = np.arange(first_row, first_row + 40)
    return {0: np.isin(np.arange(4096), rows * width).astype(np.uint8), 1: rows}


CASES = (
    Case("index_of_32_bits", cuda_cpp(__file__, SOURCE, "narrow"), 1, 40, far_down, unwritten=(0,), defective=True),
    Case("index_of_64_bits", cuda_cpp(__file__, SOURCE, "wide"), 1, 40, near_the_top, reference, unwritten=(1,)),
    Case("narrow_where_it_fits", cuda_cpp(__file__, SOURCE, "narrow"), 1, 40, near_the_top, reference, unwritten=(1,)),
)
