"""The sums of a warpgroup's product are used before the wait."""

from case import Case, cuda_cpp
from products import every, sums

SOURCE = r"""
#include "products.cuh"

template <bool awaited>
__global__ void read(float *out) {
    PRODUCT_UNDER_WAY(d);
    if (awaited) WAIT(0);
    out[threadIdx.x] = d[0] * 2;  // finds: TW413
    WAIT(0);
}
"""

CASES = (
    Case("early", cuda_cpp(__file__, SOURCE, "read<false>"), 1, 128, sums, defective=True),
    Case("awaited", cuda_cpp(__file__, SOURCE, "read<true>"), 1, 128, sums, every(32)),
)
