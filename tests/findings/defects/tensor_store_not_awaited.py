"""Another warp's product adds to what a store to tensor memory may not have written yet."""

from products import on_b200

SOURCE = r"""
#include "tensor.cuh"

template <bool awaited>
__global__ void stored(float *out) {
    BEGIN;
    STORE(own, 1.0f);
    if (awaited) STORED;
    __syncthreads();
    RESULT(out, own);  // finds: TW416
    FREE;
}
"""

CASES = on_b200(__file__, SOURCE, "stored<false>", "stored<true>", 1)
