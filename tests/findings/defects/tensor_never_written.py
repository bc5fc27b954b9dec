"""The first product of a sum adds to what happens to be in tensor memory."""

from case import Case, cuda_cpp
from products import SM_100, every, sums

SOURCE = r"""
#include "tensor.cuh"

template <bool fresh>
__global__ void added(float *out) {
    BEGIN;
    MULTIPLY(matrix_at(tile), !fresh);  // finds: TW206
    MULTIPLY(matrix_at(tile), true);
    COMMIT;
    AWAIT;
    LOAD(sum, own);
    LOADED;
    out[threadIdx.x] = sum;
    FREE;
}
"""

CASES = (
    Case(
        "tensor_never_written",
        cuda_cpp(__file__, SOURCE, "added<false>", SM_100),
        1,
        128,
        sums,
        gpu="b200",
        defective=True,
    ),
    Case("tensor_sum_begun", cuda_cpp(__file__, SOURCE, "added<true>", SM_100), 1, 128, sums, every(32), gpu="b200"),
)
