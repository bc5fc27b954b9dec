"""Reductions of a warp by one instruction, and of the lanes that share a key."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void warp_reduce(const int *values, const int *keys, int *sums, int *largest, unsigned *common) {
    const int i = threadIdx.x;
    const int value = values[i];
    sums[i] = __reduce_add_sync(0xffffffffu, value);
    const unsigned peers = __match_any_sync(0xffffffffu, keys[i]);
    largest[i] = __reduce_max_sync(peers, value);
    common[i] = __reduce_and_sync(0xffffffffu, unsigned(value));
}
"""


def arguments(rng):
    arrays = rng.integers(-1000, 1000, 96).astype(np.int32), rng.integers(0, 5, 96).astype(np.int32)
    return *arrays, np.zeros(96, np.int32), np.zeros(96, np.int32), np.zeros(96, np.uint32)


def reference(values, keys, *outputs):
    v, k = values.reshape(3, 32), keys.reshape(3, 32)
    same = k[:, :, None] == k[:, None, :]
    largest = np.where(same, v[:, None, :], -5000).max(axis=2).ravel()
    common = np.bitwise_and.reduce(v.view(np.uint32), axis=1)
    return {2: np.repeat(v.sum(axis=1), 32), 3: largest, 4: np.repeat(common, 32)}


KERNEL = cuda_cpp(__file__, SOURCE, "warp_reduce")
CASES = (Case("warp_reduce", KERNEL, 1, 96, arguments, reference, unwritten=(2, 3, 4)),)
