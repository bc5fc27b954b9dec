"""No fence comes between the zeros that sums are set to and the first product."""

from case import Case, cuda_cpp
from products import every, sums

SOURCE = r"""
#include "products.cuh"

template <bool fenced>
__global__ void begun_from_zeros(float *out) {
    MATRIX_OF_ONES(matrix);
    float d[4] = {};
    if (fenced) FENCE;
    MULTIPLY(d, matrix);  // finds: TW413
    END_PRODUCT(d, out);
}
"""

CASES = (
    Case("zeros_unfenced", cuda_cpp(__file__, SOURCE, "begun_from_zeros<false>"), 1, 128, sums, defective=True),
    Case("zeros_fenced", cuda_cpp(__file__, SOURCE, "begun_from_zeros<true>"), 1, 128, sums, every(16)),
)
