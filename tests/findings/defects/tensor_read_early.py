"""A barrier orders threads, but not what a product writes to tensor memory: an mbarrier says when it has ended."""

from case import Case, cuda_cpp
from products import SM_100, every, sums

SOURCE = r"""
#include "tensor.cuh"

template <bool awaited>
__global__ void read(float *out) {
    BEGIN;
    MULTIPLY(matrix_at(tile), false);
    COMMIT;
    if (awaited) { AWAIT; }
    __syncthreads();
    LOAD(sum, own);  // finds: TW416
    LOADED;
    out[threadIdx.x] = sum;
    AWAIT;
    FREE;
}
"""

CASES = (
    Case(
        "tensor_read_early", cuda_cpp(__file__, SOURCE, "read<false>", SM_100), 1, 128, sums, gpu="b200", defective=True
    ),
    Case("tensor_read_awaited", cuda_cpp(__file__, SOURCE, "read<true>", SM_100), 1, 128, sums, every(16), gpu="b200"),
)
