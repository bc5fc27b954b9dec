"""A read of the columns behind those that were allocated."""

from case import Case, cuda_cpp
from products import SM_100, every, sums

SOURCE = r"""
#include "tensor.cuh"

template <bool inside>
__global__ void beyond(float *out) {
    BEGIN;
    MULTIPLY(matrix_at(tile), false);
    COMMIT;
    AWAIT;
    LOAD(sum, own + (inside ? 7 : 32));  // finds: TW109
    LOADED;
    out[threadIdx.x] = sum;
    FREE;
}
"""

CASES = (
    Case(
        "tensor_beyond_columns",
        cuda_cpp(__file__, SOURCE, "beyond<false>", SM_100),
        1,
        128,
        sums,
        gpu="b200",
        defective=True,
    ),
    Case(
        "tensor_within_columns", cuda_cpp(__file__, SOURCE, "beyond<true>", SM_100), 1, 128, sums, every(16), gpu="b200"
    ),
)
