"""A block that ends without freeing its columns."""

from case import Case, cuda_cpp
from products import SM_100, every, sums

SOURCE = r"""
#include "tensor.cuh"

template <bool freed>
__global__ void left(float *out) {
    BEGIN;  // finds: TW419
    MULTIPLY(matrix_at(tile), false);
    COMMIT;
    AWAIT;
    LOAD(sum, own);
    LOADED;
    out[threadIdx.x] = sum;
    if (freed) { FREE; }
}
"""

CASES = (
    Case(
        "tensor_not_freed", cuda_cpp(__file__, SOURCE, "left<false>", SM_100), 1, 128, sums, gpu="b200", defective=True
    ),
    Case("tensor_freed", cuda_cpp(__file__, SOURCE, "left<true>", SM_100), 1, 128, sums, every(16), gpu="b200"),
)
