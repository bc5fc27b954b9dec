"""The leading offset and the stride of a descriptor are exchanged: the lines of two atoms are the same bytes."""

from case import Case, cuda_cpp
from products import every, sums

SOURCE = r"""
#include "products.cuh"

template <bool swapped>
__global__ void multiplied(float *out) {
    MATRIX_OF_ONES(matrix);
    const unsigned long long low = matrix & 0xffff, leading = matrix >> 16 & 0xffff, stride = matrix >> 32 & 0xffff;
    PRODUCT_TO(out, low | (swapped ? stride << 16 | leading << 32 : leading << 16 | stride << 32));  // finds: TW415
}
"""

CASES = (
    Case("offsets_swapped", cuda_cpp(__file__, SOURCE, "multiplied<true>"), 1, 128, sums, defective=True),
    Case("offsets_in_order", cuda_cpp(__file__, SOURCE, "multiplied<false>"), 1, 128, sums, every(16)),
)
