"""A block that ends without freeing its columns."""

from products import on_b200

SOURCE = r"""
#include "tensor.cuh"

template <bool freed>
__global__ void left(float *out) {
    PRODUCT_UNDER_WAY;  // finds: TW419
    AWAIT;
    RESULT(out, own);
    if (freed) { FREE; }
}
"""

CASES = on_b200(__file__, SOURCE, "left<false>", "left<true>")
