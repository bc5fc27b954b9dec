"""Warps multiply what others may not have stored yet."""

from case import Case, cuda_cpp
from products import every, ones

SOURCE = r"""
#include "products.cuh"

template <bool together>
__global__ void stored(const unsigned short *x, float *out) {
    SHARED_TILE;
    for (int i = threadIdx.x; i < 64 * 16; i += 128)
        tile[i] = x[i];  // finds: TW307
    FENCE_PROXY;
    if (together) __syncthreads();
    PRODUCT_TO(out, at(tile));
}
"""

CASES = (
    Case("at_once", cuda_cpp(__file__, SOURCE, "stored<false>"), 1, 128, ones, defective=True),
    Case("together", cuda_cpp(__file__, SOURCE, "stored<true>"), 1, 128, ones, every(16)),
)
