"""A warpgroup waits for groups before its product is in one."""

from case import Case, cuda_cpp
from products import every, sums

SOURCE = r"""
#include "products.cuh"

template <bool committed>
__global__ void awaited(float *out) {
    FENCED_SUMS(d, matrix);
    MULTIPLY(d, matrix);
    if (committed) COMMIT;
    WAIT(0);
    if (!committed) COMMIT;
    out[threadIdx.x] = d[0] * 3;  // finds: TW413
}
"""

CASES = (
    Case("uncommitted", cuda_cpp(__file__, SOURCE, "awaited<false>"), 1, 128, sums, defective=True),
    Case("committed", cuda_cpp(__file__, SOURCE, "awaited<true>"), 1, 128, sums, every(48)),
)
