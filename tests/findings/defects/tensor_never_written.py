"""The first product of a sum adds to what happens to be in tensor memory."""

from products import on_b200

SOURCE = r"""
#include "tensor.cuh"

template <bool fresh>
__global__ void added(float *out) {
    BEGIN;
    MULTIPLY(matrix_at(tile), !fresh);  // finds: TW206
    MULTIPLY(matrix_at(tile), true);
    COMMIT;
    END_PRODUCT(out);
}
"""

CASES = on_b200(__file__, SOURCE, "added<false>", "added<true>", 32)
