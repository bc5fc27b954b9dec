"""A barrier orders stores after a product's instruction, but not after its end: it may still read its source."""

from case import Case, cuda_cpp
from products import every, sums

SOURCE = r"""
#include "products.cuh"

template <bool awaited>
__global__ void overwritten(float *out) {
    PRODUCT_UNDER_WAY(d);
    if (awaited) WAIT(0);
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * 16; i += 128)
        tile[i] = 0;  // finds: TW307
    WAIT(0);
    out[threadIdx.x] = d[0];
}
"""

CASES = (
    Case("overwritten_early", cuda_cpp(__file__, SOURCE, "overwritten<false>"), 1, 128, sums, defective=True),
    Case("overwritten_behind", cuda_cpp(__file__, SOURCE, "overwritten<true>"), 1, 128, sums, every(16)),
)
