"""A product reads with a swizzle of 64 bytes what a copy has written with one of 128."""

from case import Case, cuda_cpp
from products import box, every

SOURCE = r"""
#include "products.cuh"

#include "mbarriers.cuh"

template <int mode>
__global__ void multiplied(const __grid_constant__ TensorMap map, float *out) {
    COPIED_TILE(map, 8192);
    PRODUCT_TO(out, swizzled(tile, mode));  // finds: TW415
}
"""

CASES = (
    Case("swizzled_otherwise", cuda_cpp(__file__, SOURCE, "multiplied<2>"), 1, 128, box(128), defective=True),
    Case("swizzled_alike", cuda_cpp(__file__, SOURCE, "multiplied<1>"), 1, 128, box(128), every(16)),
)
