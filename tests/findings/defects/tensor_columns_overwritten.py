"""A store to tensor memory beside a product that still adds to the same columns."""

from case import Case, cuda_cpp
from products import SM_100, every, sums

SOURCE = r"""
#include "tensor.cuh"

template <bool awaited>
__global__ void overwritten(float *out) {
    BEGIN;
    MULTIPLY(matrix_at(tile), false);
    COMMIT;
    if (awaited) { AWAIT; }
    __syncthreads();
    STORE(own, 16.0f);  // finds: TW417
    STORED;
    AWAIT;
    LOAD(sum, own);
    LOADED;
    out[threadIdx.x] = sum;
    FREE;
}
"""

CASES = (
    Case(
        "tensor_columns_overwritten",
        cuda_cpp(__file__, SOURCE, "overwritten<false>", SM_100),
        1,
        128,
        sums,
        gpu="b200",
        defective=True,
    ),
    Case(
        "tensor_columns_written_behind",
        cuda_cpp(__file__, SOURCE, "overwritten<true>", SM_100),
        1,
        128,
        sums,
        every(16),
        gpu="b200",
    ),
)
