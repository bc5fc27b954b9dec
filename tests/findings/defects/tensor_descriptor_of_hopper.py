"""The descriptor of a matrix without the version that sm_100 asks for."""

from case import Case, cuda_cpp
from products import SM_100, every, sums

SOURCE = r"""
#include "tensor.cuh"

template <bool versioned>
__global__ void described(float *out) {
    BEGIN;
    MULTIPLY(matrix_at(tile, versioned), false);  // finds: TW415
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
        "tensor_descriptor_of_hopper",
        cuda_cpp(__file__, SOURCE, "described<false>", SM_100),
        1,
        128,
        sums,
        gpu="b200",
        defective=True,
    ),
    Case(
        "tensor_descriptor_of_blackwell",
        cuda_cpp(__file__, SOURCE, "described<true>", SM_100),
        1,
        128,
        sums,
        every(16),
        gpu="b200",
    ),
)
