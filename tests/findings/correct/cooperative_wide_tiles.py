"""Tiles of 64 threads: their barriers and their exchange lie in the shared memory that a GPU reserves."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void cooperative_wide_tiles(const int *x, int *mirrored, int *fortieth) {
    __shared__ int held[128];
    const auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    held[threadIdx.x] = x[threadIdx.x];
    tile.sync();
    const int other = held[threadIdx.x ^ 63];
    mirrored[threadIdx.x] = other;
    fortieth[threadIdx.x] = tile.shfl(other, 40);
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 128).astype(np.int32), np.zeros(128, np.int32), np.zeros(128, np.int32)


def reference(x, mirrored, fortieth):
    turned = x.reshape(2, 64)[:, ::-1]
    return {1: turned.ravel(), 2: np.repeat(turned[:, 40], 64)}


KERNEL = cuda_cpp(__file__, SOURCE, "cooperative_wide_tiles")
CASES = (Case("cooperative_wide_tiles", KERNEL, (1, 1, 1), (128, 1, 1), arguments, reference, unwritten=(1, 2)),)
