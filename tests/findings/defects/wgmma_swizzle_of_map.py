"""A product reads with a swizzle of 128 bytes what a copy by a map without one has written."""

from case import Case, cuda_cpp
from products import box, every

SOURCE = r"""
#include "products.cuh"

#include "mbarriers.cuh"

__global__ void multiplied(const __grid_constant__ TensorMap map, float *out) {
    COPIED_TILE(map, 8192);
    PRODUCT_TO(out, swizzled(tile, 1));  // finds: TW415
}
"""

CASES = (
    Case("swizzled_by_descriptor_alone", cuda_cpp(__file__, SOURCE, "multiplied"), 1, 128, box(0), defective=True),
    Case("swizzled_by_both", cuda_cpp(__file__, SOURCE, "multiplied"), 1, 128, box(128), every(16)),
)
