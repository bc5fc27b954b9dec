"""A product goes on reading its tile behind its instruction, and behind a barrier."""

from case import Case, cuda_cpp
from products import SM_100, every, sums

SOURCE = r"""
#include "tensor.cuh"

template <bool awaited>
__global__ void refilled(float *out) {
    BEGIN;
    MULTIPLY(matrix_at(tile), false);
    COMMIT;
    if (awaited) { AWAIT; }
    __syncthreads();
    for (int i = threadIdx.x; i < 128 * 16; i += 128)
        tile[i] = 0;  // finds: TW417
    AWAIT;
    LOAD(sum, own);
    LOADED;
    out[threadIdx.x] = sum;
    FREE;
}
"""

CASES = (
    Case(
        "tensor_tile_refilled",
        cuda_cpp(__file__, SOURCE, "refilled<false>", SM_100),
        1,
        128,
        sums,
        gpu="b200",
        defective=True,
    ),
    Case(
        "tensor_tile_refilled_behind",
        cuda_cpp(__file__, SOURCE, "refilled<true>", SM_100),
        1,
        128,
        sums,
        every(16),
        gpu="b200",
    ),
)
