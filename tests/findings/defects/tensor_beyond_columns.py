"""A read of columns after those that were allocated."""

from products import on_b200

SOURCE = r"""
#include "tensor.cuh"

template <bool inside>
__global__ void beyond(float *out) {
    PRODUCT_UNDER_WAY;
    AWAIT;
    RESULT(out, own + (inside ? 7 : 32));  // finds: TW109
    FREE;
}
"""

CASES = on_b200(__file__, SOURCE, "beyond<false>", "beyond<true>")
