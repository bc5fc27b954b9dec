"""A loop sets the sums to zeros again for its next tile, but the fence is before the loop."""

from case import Case, cuda_cpp
from products import every, sums

SOURCE = r"""
#include "products.cuh"

template <bool inside>
__global__ void tiles(float *out) {
    MATRIX_OF_ONES(matrix);
    float sum = 0, d[4];
    if (!inside) FENCE;
#pragma unroll 1
    for (int tile = 0; tile < 3; tile++) {
        d[0] = d[1] = d[2] = d[3] = 0;
        if (inside) FENCE;
        MULTIPLY(d, matrix);  // finds: TW413
        COMMIT;
        WAIT(0);
        sum += d[0];
    }
    out[threadIdx.x] = sum;
}
"""

CASES = (
    Case("fenced_before_loop", cuda_cpp(__file__, SOURCE, "tiles<false>"), 1, 128, sums, defective=True),
    Case("fenced_in_loop", cuda_cpp(__file__, SOURCE, "tiles<true>"), 1, 128, sums, every(48)),
)
