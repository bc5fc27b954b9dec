"""Of two buffers the one is filled again whose product the wait leaves in flight; every thread waits for others."""

from case import Case, cuda_cpp
from products import every, sums

SOURCE = r"""
#include "products.cuh"

template <int again>
__global__ void filled(float *out) {
    __shared__ alignas(128) unsigned short tiles[2][64 * 16];
    const unsigned long long first = ones(tiles[0]), second = ones(tiles[1]);
    float d[4] = {}, e[4] = {};
    FENCE;
    MULTIPLY(d, first);
    COMMIT;
    MULTIPLY(e, second);
    COMMIT;
    WAIT(1);
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * 16; i += 128)
        tiles[again][i] = 0;  // finds: TW307
    __syncthreads();
    WAIT(0);
    out[threadIdx.x] = d[0] + e[0];
}
"""

CASES = (
    Case("second_again", cuda_cpp(__file__, SOURCE, "filled<1>"), 1, 128, sums, defective=True),
    Case("first_again", cuda_cpp(__file__, SOURCE, "filled<0>"), 1, 128, sums, every(32)),
)
