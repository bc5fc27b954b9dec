"""A relaxed wait for a product, and a load of its results without a fence between."""

from products import on_b200

SOURCE = r"""
#include "tensor.cuh"

template <bool fenced>
__global__ void relaxed(float *out) {
    PRODUCT_UNDER_WAY;
    AWAIT_RELAXED;
    if (fenced) asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    LOAD(sum, own);  // finds: TW420
    LOADED;
    out[threadIdx.x] = sum;
    FREE;
}
"""

CASES = on_b200(__file__, SOURCE, "relaxed<false>", "relaxed<true>")
