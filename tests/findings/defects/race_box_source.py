"""Another warp overwrites a tile behind a barrier, while the copy of a box may still be reading it."""

import numpy as np
from case import Case, cuda_cpp

from tilewright.gpu.tensor_maps import TensorMap

SOURCE = r"""
#include "mbarriers.cuh"

template <bool read>
__global__ void box_overwritten(const __grid_constant__ TensorMap map, int *x, int *out) {
    TRIPLED_TILE(x);
    if (t == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %1}], [%2];"
                     ::"l"(&map), "r"(0), IN_SHARED(tile) : "memory");
        COMMIT_BULK;
        if (read) WAIT_BULK(.read);
    }
    __syncthreads();
    if (t > 31) tile[t] = 7;  // finds: TW306
    if (t == 0) WAIT_BULK();
}
"""


def numbers(rng):
    """A map of boxes of all of 8 x 8 numbers, numbers of another matrix, and none that are read."""
    x = rng.integers(1, 99, (8, 8)).astype(np.int32)
    result = np.zeros((8, 8), np.int32)
    return TensorMap(result, (8, 8)), x, result


def tripled(given, x, out):
    """The numbers times three."""
    return {2: 3 * x}


CASES = (
    Case("box_overwritten", cuda_cpp(__file__, SOURCE, "box_overwritten<false>"), 1, 64, numbers, defective=True),
    Case("box_written_out", cuda_cpp(__file__, SOURCE, "box_overwritten<true>"), 1, 64, numbers, tripled),
)
