"""A product reads what an asynchronous copy may still be writing."""

from case import Case, cuda_cpp
from products import every, ones

SOURCE = r"""
#include "products.cuh"

template <int in_flight>
__global__ void copied(const unsigned short *x, float *out) {
    SHARED_TILE;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 ::"r"((unsigned)__cvta_generic_to_shared(tile + 8 * threadIdx.x)), "l"(x + 8 * threadIdx.x)
                 : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group %0;" ::"n"(in_flight) : "memory");
    show_to_product();
    PRODUCT_TO(out, at(tile));  // finds: TW306
}
"""

CASES = (
    Case("one_in_flight", cuda_cpp(__file__, SOURCE, "copied<1>"), 1, 128, ones, defective=True),
    Case("none_in_flight", cuda_cpp(__file__, SOURCE, "copied<0>"), 1, 128, ones, every(16)),
)
