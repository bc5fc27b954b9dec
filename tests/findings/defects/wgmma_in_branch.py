"""A warpgroup's product in a branch that only three of its four warps take."""

from case import Case, cuda_cpp
from products import every, sums

SOURCE = r"""
#include "products.cuh"

template <bool guards_all>
__global__ void multiplied(float *out) {
    FENCED_SUMS(d, matrix);
    if (!guards_all || threadIdx.x < 96)
        MULTIPLY(d, matrix);  // finds: TW414
    END_PRODUCT(d, out);
}
"""

CASES = (
    Case("by_three_warps", cuda_cpp(__file__, SOURCE, "multiplied<true>"), 1, 128, sums, defective=True),
    Case("by_four_warps", cuda_cpp(__file__, SOURCE, "multiplied<false>"), 1, 128, sums, every(16)),
)
