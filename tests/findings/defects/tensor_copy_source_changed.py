"""A copy to tensor memory still reads its tile after its instruction, and after a barrier."""

from products import on_b200

SOURCE = r"""
#include "tensor.cuh"

template <bool awaited>
__global__ void copied(float *out) {
    BEGIN;
    for (int i = threadIdx.x; i < 128 * 8; i += 128)
        ((float *)tile)[i] = 16;
    FENCE_PROXY;
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("tcgen05.cp.cta_group::1.128x128b [%0], %1;" ::"r"(columns), "l"(matrix_at(tile)) : "memory");
    COMMIT;
    MEET(awaited);
    tile[16 * threadIdx.x] = 0;  // finds: TW417
    END_PRODUCT(out);
}
"""

CASES = on_b200(__file__, SOURCE, "copied<false>", "copied<true>")
