"""The sums that a warpgroup's product adds to are set without a fence."""

from case import Case, cuda_cpp
from products import every, sums

SOURCE = r"""
#include "products.cuh"

template <bool fenced>
__global__ void begun_from(float *out) {
    MATRIX_OF_ONES(matrix);
    float d[4] = {};
    for (int i = 0; i < 4; i++)
        d[i] = out[threadIdx.x] * i;
    if (fenced) FENCE;
    MULTIPLY(d, matrix);  // finds: TW413
    END_PRODUCT(d, out);
}
"""

CASES = (
    Case("unfenced", cuda_cpp(__file__, SOURCE, "begun_from<false>"), 1, 128, sums, defective=True),
    Case("fenced", cuda_cpp(__file__, SOURCE, "begun_from<true>"), 1, 128, sums, every(16)),
)
