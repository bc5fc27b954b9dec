"""A barrier orders threads, but not what a product writes to tensor memory: an mbarrier says when it has ended."""

from products import on_b200

SOURCE = r"""
#include "tensor.cuh"

template <bool awaited>
__global__ void read(float *out) {
    PRODUCT_UNDER_WAY;
    MEET(awaited);
    RESULT(out, own);  // finds: TW416
    AWAIT;
    FREE;
}
"""

CASES = on_b200(__file__, SOURCE, "read<false>", "read<true>")
