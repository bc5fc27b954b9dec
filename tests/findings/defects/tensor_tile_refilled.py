"""A product still reads its tile after its instruction, and after a barrier."""

from products import on_b200

SOURCE = r"""
#include "tensor.cuh"

template <bool awaited>
__global__ void refilled(float *out) {
    PRODUCT_UNDER_WAY;
    MEET(awaited);
    for (int i = threadIdx.x; i < 128 * 16; i += 128)
        tile[i] = 0;  // finds: TW417
    END_PRODUCT(out);
}
"""

CASES = on_b200(__file__, SOURCE, "refilled<false>", "refilled<true>")
