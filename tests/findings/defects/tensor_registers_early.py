"""What a load from tensor memory gives is used before the warp has waited for its loads."""

from case import Case, cuda_cpp
from products import SM_100, every, sums

SOURCE = r"""
#include "tensor.cuh"

template <bool awaited>
__global__ void early(float *out) {
    BEGIN;
    MULTIPLY(matrix_at(tile), false);
    COMMIT;
    AWAIT;
    LOAD(sum, own);
    if (awaited) LOADED;
    out[threadIdx.x] = sum;  // finds: TW418
    FREE;
}
"""

CASES = (
    Case(
        "tensor_registers_early",
        cuda_cpp(__file__, SOURCE, "early<false>", SM_100),
        1,
        128,
        sums,
        gpu="b200",
        defective=True,
    ),
    Case(
        "tensor_registers_awaited",
        cuda_cpp(__file__, SOURCE, "early<true>", SM_100),
        1,
        128,
        sums,
        every(16),
        gpu="b200",
    ),
)
