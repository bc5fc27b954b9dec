"""Two warps count in shared memory, and a third reads the counts when one of them has arrived."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "mbarriers.cuh"

template <bool both>
__global__ void counts(const int *x, int *out) {
    __shared__ int count[32];
    __shared__ uint64_t bar[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x < 2) INIT(&bar[threadIdx.x], 32);
    if (warp == 2) count[lane] = 0;
    __syncthreads();
    if (warp < 2) {
        atomicAdd(&count[x[threadIdx.x] % 32], 1);  // finds: TW301
        ARRIVE(&bar[warp]);
    } else {
        AWAIT(&bar[0], 0);
        if (both) AWAIT(&bar[1], 0);
        out[lane] = count[lane];
    }
}
"""


def arguments(rng):
    return rng.integers(0, 8, 64).astype(np.int32), np.zeros(32, np.int32)


def reference(x, out):
    return {1: np.bincount(x, minlength=32)}


CASES = (
    Case("counts_of_one", cuda_cpp(__file__, SOURCE, "counts<false>"), 1, 96, arguments, defective=True),
    Case("counts_of_both", cuda_cpp(__file__, SOURCE, "counts<true>"), 1, 96, arguments, reference),
)
