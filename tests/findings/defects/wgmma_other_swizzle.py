"""A product reads with a swizzle of 64 bytes what a copy has written with one of 128."""

from case import Case, cuda_cpp
from products import box, every

SOURCE = r"""
#include "products.cuh"

#include "mbarriers.cuh"

template <int mode>
__global__ void multiplied(const __grid_constant__ TensorMap map, float *out) {
    __shared__ alignas(1024) unsigned short tile[64 * 64];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        INIT(&bar, 1);
        ARRIVE_AND_EXPECT(&bar, 8192);
        LOAD_BOX(tile, map, 0, 0, &bar);
    }
    __syncthreads();
    AWAIT(&bar, 0);
    PRODUCT(d, swizzled(tile, mode));  // finds: TW415
    out[threadIdx.x] = d[0];
}
"""

CASES = (
    Case("swizzled_otherwise", cuda_cpp(__file__, SOURCE, "multiplied<2>"), 1, 128, box(128), defective=True),
    Case("swizzled_alike", cuda_cpp(__file__, SOURCE, "multiplied<1>"), 1, 128, box(128), every(16)),
)
