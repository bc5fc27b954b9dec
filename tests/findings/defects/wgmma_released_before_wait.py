"""Consumers give a buffer back before they have waited for the product that reads it."""

from case import Case, cuda_cpp
from products import every, sums

SOURCE = r"""
#include "products.cuh"

#include "mbarriers.cuh"

// Four warps multiply; a fifth fills the buffer again.
template <bool early>
__global__ void released(float *out) {
    SHARED_TILE;
    __shared__ uint64_t free;
    if (threadIdx.x == 0) INIT(&free, 128);
    for (int i = threadIdx.x; i < 64 * 16; i += 160)
        tile[i] = 0x3c00;
    show_to_product();
    if (threadIdx.x >= 128) {
        AWAIT(&free, 0);
        for (int i = threadIdx.x - 128; i < 64 * 16; i += 32)
            tile[i] = 0;  // finds: TW307
        return;
    }
    float d[4] = {};
    FENCE;
    MULTIPLY(d, at(tile));
    COMMIT;
    if (early) ARRIVE(&free);
    WAIT(0);
    if (!early) ARRIVE(&free);
    out[threadIdx.x] = d[0];
}
"""

CASES = (
    Case("released_early", cuda_cpp(__file__, SOURCE, "released<true>"), 1, 160, sums, defective=True),
    Case("released_behind", cuda_cpp(__file__, SOURCE, "released<false>"), 1, 160, sums, every(16)),
)
