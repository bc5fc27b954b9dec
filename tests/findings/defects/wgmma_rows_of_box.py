"""A box has rows of 64 bytes, and its map and the descriptor a swizzle of 128."""

from case import Case, cuda_cpp
from products import box, every

SOURCE = r"""
#include "products.cuh"

#include "mbarriers.cuh"

template <int bytes>
__global__ void multiplied(const __grid_constant__ TensorMap map, float *out) {
    COPIED_TILE(map, 64 * bytes);
    PRODUCT_TO(out, swizzled(tile, 1));  // finds: TW202, TW415
}
"""

CASES = (
    Case("half_rows", cuda_cpp(__file__, SOURCE, "multiplied<64>"), 1, 128, box(128, columns=32), defective=True),
    Case("whole_rows", cuda_cpp(__file__, SOURCE, "multiplied<128>"), 1, 128, box(128), every(16)),
)
