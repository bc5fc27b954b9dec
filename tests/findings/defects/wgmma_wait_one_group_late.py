"""The wait leaves the group in flight whose sums are used next."""

from case import Case, cuda_cpp
from products import every, sums

SOURCE = r"""
#include "products.cuh"

template <bool second_first>
__global__ void read(float *out) {
    MATRIX_OF_ONES(matrix);
    float d[4] = {}, e[4] = {};
    FENCE;
    MULTIPLY(d, matrix);
    COMMIT;
    MULTIPLY(e, matrix);
    COMMIT;
    WAIT(1);
    out[threadIdx.x] = (second_first ? e[0] : d[0]) * 2;  // finds: TW413
    WAIT(0);
    out[threadIdx.x] += second_first ? d[0] : e[0];
}
"""

CASES = (
    Case("one_late", cuda_cpp(__file__, SOURCE, "read<true>"), 1, 128, sums, defective=True),
    Case("in_order", cuda_cpp(__file__, SOURCE, "read<false>"), 1, 128, sums, every(48)),
)
