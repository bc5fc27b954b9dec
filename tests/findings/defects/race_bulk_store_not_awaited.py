"""The target of a bulk copy is read after a wait for its source only: the data may not have arrived."""

from case import Case, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool ended>
__global__ void reads_back(int *x, int *out) {
    TRIPLED_TILE(x);
    if (t == 0) {
        STORE_BULK(x, tile, 256);
        COMMIT_BULK;
        wait_bulk<ended>();
    }
    __syncthreads();
    out[t] = x[63 - t];  // finds: TW306
}
"""


def tripled(x, out):
    """The numbers times three, and backwards."""
    return {0: 3 * x, 1: 3 * x[::-1]}


CASES = (
    Case("reads_back", cuda_cpp(__file__, SOURCE, "reads_back<false>"), 1, 64, numbers(64), defective=True),
    Case("waits_for_the_end", cuda_cpp(__file__, SOURCE, "reads_back<true>"), 1, 64, numbers(64), tripled),
)
