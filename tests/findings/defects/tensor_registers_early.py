"""What a load from tensor memory gives is used before the warp has waited for its loads."""

from products import on_b200

SOURCE = r"""
#include "tensor.cuh"

template <bool awaited>
__global__ void early(float *out) {
    PRODUCT_UNDER_WAY;
    AWAIT;
    LOAD(sum, own);
    if (awaited) LOADED;
    out[threadIdx.x] = sum;  // finds: TW418
    FREE;
}
"""

CASES = on_b200(__file__, SOURCE, "early<false>", "early<true>")
