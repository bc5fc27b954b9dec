"""Two bulk copies of shared memory that nobody wrote go to one place: their race does not explain what they read."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "mbarriers.cuh"

template <bool correct>
__global__ void sends_twice(int *out, int value) {
    __shared__ alignas(16) int tile[64];
    if (correct || value == 0) {
        for (int i = 0; i < 64; ++i) tile[i] = value;
        FENCE_PROXY;
    }
    STORE_BULK(out, tile, 128);  // finds: TW202
    if (correct) {
        COMMIT_BULK;
        WAIT_BULK();
    }
    STORE_BULK(out, tile + 32, 128);  // finds: TW202, TW306
    COMMIT_BULK;
    WAIT_BULK();
}
"""


def arguments(rng):
    return np.zeros(32, np.int32), 7


def reference(out, value):
    return {0: np.full(32, 7)}


CASES = (
    Case("sends_unset_twice", cuda_cpp(__file__, SOURCE, "sends_twice<false>"), 1, 1, arguments, defective=True),
    Case("sends_set_twice", cuda_cpp(__file__, SOURCE, "sends_twice<true>"), 1, 1, arguments, reference),
)
