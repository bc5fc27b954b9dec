"""A product reads lines of its tile that nothing has written."""

from case import Case, cuda_cpp
from products import every, ones

SOURCE = r"""
#include "products.cuh"

template <int lines>
__global__ void filled(const unsigned short *x, float *out) {
    SHARED_TILE;
    for (int i = threadIdx.x; i < lines * 16; i += 128)
        tile[i] = x[i];
    show_to_product();
    PRODUCT_TO(out, at(tile));  // finds: TW202
}
"""

CASES = (
    Case("some_lines", cuda_cpp(__file__, SOURCE, "filled<56>"), 1, 128, ones, defective=True),
    Case("all_lines", cuda_cpp(__file__, SOURCE, "filled<64>"), 1, 128, ones, every(16)),
)
