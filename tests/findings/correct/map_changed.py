"""A block copies a tensor map from its parameters, changes its address, and copies a box by what it has made."""

import numpy as np
from case import Case, cuda_cpp

from tilewright.gpu.tensor_maps import TensorMap

SOURCE = r"""
#include "mbarriers.cuh"

__global__ void map_changed(const __grid_constant__ TensorMap given, TensorMap *kept, const int *x, int *out) {
    __shared__ alignas(128) TensorMap map;
    __shared__ alignas(128) int tile[8 * 32];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    const unsigned *words = reinterpret_cast<const unsigned *>(&given);
    reinterpret_cast<unsigned *>(&map)[t] = words[t];
    if (t == 0) INIT(&bar, 1);
    __syncwarp();
    if (t == 0)
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;"
                     ::IN_SHARED(&map), "l"(x) : "memory");
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
                 "[%0], [%1], 128;"
                 ::"l"(kept), IN_SHARED(&map) : "memory");
    if (t == 0) {
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(kept) : "memory");
        ARRIVE_AND_EXPECT(&bar, 1024);
        LOAD_BOX(tile, *kept, 0, 0, &bar);
    }
    __syncwarp();
    AWAIT(&bar, 0);
    for (int i = t; i < 8 * 32; i += 32)
        out[i] = tile[i];
}
"""


def arguments(rng):
    given, x = np.zeros((8, 32), np.int32), rng.integers(1, 99, (8, 32)).astype(np.int32)
    return TensorMap(given, (8, 32)), np.zeros(16, np.uint64), x, np.zeros((8, 32), np.int32)


def reference(given, kept, x, out):
    return {3: x}


CASES = (Case("map_changed", cuda_cpp(__file__, SOURCE, "map_changed"), 1, 32, arguments, reference, unwritten=(1,)),)
