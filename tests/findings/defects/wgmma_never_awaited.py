"""A warpgroup ends without waiting for its last product, while others fill what it reads again."""

from case import Case, cuda_cpp
from products import every, sums

SOURCE = r"""
#include "products.cuh"

#include "mbarriers.cuh"

// Four warps multiply twice, the second time for nobody; a fifth overwrites the tile when they say so.
template <bool awaited>
__global__ void left(float *out) {
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
    float d[4] = {}, e[4] = {};
    FENCE;
    MULTIPLY(d, at(tile));
    COMMIT;
    MULTIPLY(e, at(tile));
    COMMIT;
    if (awaited) WAIT(0); else WAIT(1);
    out[threadIdx.x] = d[0];
    ARRIVE(&free);
}
"""

CASES = (
    Case("one_left_in_flight", cuda_cpp(__file__, SOURCE, "left<false>"), 1, 160, sums, defective=True),
    Case("none_left_in_flight", cuda_cpp(__file__, SOURCE, "left<true>"), 1, 160, sums, every(16)),
)
