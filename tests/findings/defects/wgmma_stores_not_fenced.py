"""A product reads what threads have stored without a fence between the proxies."""

from case import Case, cuda_cpp
from products import every, ones

SOURCE = r"""
#include "products.cuh"

template <bool fenced>
__global__ void stored(const unsigned short *x, float *out) {
    SHARED_TILE;
    for (int i = threadIdx.x; i < 64 * 16; i += 128)
        tile[i] = x[i];
    if (fenced) FENCE_PROXY;
    __syncthreads();
    PRODUCT_TO(out, at(tile));  // finds: TW412
}
"""

CASES = (
    Case("product_without_fence", cuda_cpp(__file__, SOURCE, "stored<false>"), 1, 128, ones, defective=True),
    Case("product_with_fence", cuda_cpp(__file__, SOURCE, "stored<true>"), 1, 128, ones, every(16)),
)
