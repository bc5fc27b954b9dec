"""A descriptor says that its pattern starts at another line, as the copy did not write it."""

from case import Case, cuda_cpp
from products import box, every

SOURCE = r"""
#include "products.cuh"

#include "mbarriers.cuh"

template <int base>
__global__ void multiplied(const __grid_constant__ TensorMap map, float *out) {
    COPIED_TILE(map, 8192);
    PRODUCT_TO(out, swizzled(tile, 1, base));  // finds: TW415
}
"""

CASES = (
    Case("with_base_offset", cuda_cpp(__file__, SOURCE, "multiplied<4>"), 1, 128, box(128), defective=True),
    Case("without_base_offset", cuda_cpp(__file__, SOURCE, "multiplied<0>"), 1, 128, box(128), every(16)),
)
