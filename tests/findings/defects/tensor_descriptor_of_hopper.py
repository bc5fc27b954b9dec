"""The descriptor of a matrix without the version that sm_100 asks for."""

from products import on_b200

SOURCE = r"""
#include "tensor.cuh"

template <bool versioned>
__global__ void described(float *out) {
    BEGIN;
    MULTIPLY(matrix_at(tile, versioned), false);  // finds: TW415
    COMMIT;
    END_PRODUCT(out);
}
"""

CASES = on_b200(__file__, SOURCE, "described<false>", "described<true>")
