"""A store to tensor memory beside a product that still adds to the same columns."""

from products import on_b200

SOURCE = r"""
#include "tensor.cuh"

template <bool awaited>
__global__ void overwritten(float *out) {
    PRODUCT_UNDER_WAY;
    MEET(awaited);
    STORE(own, 16.0f);  // finds: TW417
    STORED;
    END_PRODUCT(out);
}
"""

CASES = on_b200(__file__, SOURCE, "overwritten<false>", "overwritten<true>")
