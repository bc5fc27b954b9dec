"""A box that was copied to a matrix is read after a wait for its source only: the data may not have arrived."""

import numpy as np
from case import Case, cuda_cpp

from tilewright.gpu.tensor_maps import TensorMap

SOURCE = r"""
#include "mbarriers.cuh"

#define STORE_BOX(map, from, row, column)                                                                              \
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"                         \
                 ::"l"(&map), "r"(column), "r"(row), IN_SHARED(from) : "memory")

template <bool ended>
__global__ void box_read_back(const __grid_constant__ TensorMap map, int *x, int *out) {
    TRIPLED_TILE(x);
    if (t == 0) {
        STORE_BOX(map, tile, 0, 0);
        COMMIT_BULK;
        wait_bulk<ended>();
    }
    __syncthreads();
    out[t] = x[63 - t];  // finds: TW306
}
"""


def numbers(rng):
    """A map of boxes of all of 8 x 8 numbers, these, and room for as many."""
    x = rng.integers(1, 99, (8, 8)).astype(np.int32)
    return TensorMap(x, (8, 8)), x, np.zeros(64, np.int32)


def tripled(given, x, out):
    """The numbers times three, and backwards."""
    return {1: 3 * x, 2: 3 * x.ravel()[::-1]}


CASES = (
    Case("read_back", cuda_cpp(__file__, SOURCE, "box_read_back<false>"), 1, 64, numbers, defective=True),
    Case("box_waits_for_the_end", cuda_cpp(__file__, SOURCE, "box_read_back<true>"), 1, 64, numbers, tripled),
)
