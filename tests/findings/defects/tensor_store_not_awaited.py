"""Another warp's product adds to what a store to tensor memory may not have written yet."""

from case import Case, cuda_cpp
from products import SM_100, every, sums

SOURCE = r"""
#include "tensor.cuh"

template <bool awaited>
__global__ void stored(float *out) {
    BEGIN;
    STORE(own, 1.0f);
    if (awaited) STORED;
    __syncthreads();
    LOAD(sum, own);  // finds: TW416
    LOADED;
    out[threadIdx.x] = sum;
    FREE;
}
"""

CASES = (
    Case(
        "tensor_store_not_awaited",
        cuda_cpp(__file__, SOURCE, "stored<false>", SM_100),
        1,
        128,
        sums,
        gpu="b200",
        defective=True,
    ),
    Case(
        "tensor_store_awaited", cuda_cpp(__file__, SOURCE, "stored<true>", SM_100), 1, 128, sums, every(1), gpu="b200"
    ),
)
