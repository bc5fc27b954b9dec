"""A loop that awaits the same parity in each round."""

from case import Case, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <int turned>
__global__ void parity(const int *x, int *out) {
    TILE_AND_MBARRIER(64);
    int sum = 0;
    for (int round = 0; round < 2; round++) {
        tile[t] = x[t] + round;  // finds: TW301
        ARRIVE(&bar);
        AWAIT(&bar, round & turned);  // finds: TW407
        sum += tile[63 - t];
        __syncthreads();
    }
    out[t] = sum;
}
"""


def reference(x, out):
    return {1: 2 * x[::-1] + 1}


CASES = (
    Case("always_zero", cuda_cpp(__file__, SOURCE, "parity<0>"), 1, 64, numbers(64), defective=True),
    Case("turned_over", cuda_cpp(__file__, SOURCE, "parity<1>"), 1, 64, numbers(64), reference),
)
