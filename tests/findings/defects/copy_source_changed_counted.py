"""What a copy reads that an mbarrier counts is overwritten behind a barrier, but before that phase has completed."""

import numpy as np
from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "copies.cuh"
#include "mbarriers.cuh"

template <bool awaited>
__global__ void counted(int *x, int *out) {
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) INIT(&bar, 64);
    __syncthreads();
    COPY_TO_TILE(int, 64, x);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::IN_SHARED(&bar) : "memory");
    if (awaited) AWAIT(&bar, 0);
    __syncthreads();
    x[63 - threadIdx.x] = 0;  // finds: TW306
    AWAIT(&bar, 0);
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
"""


def cleared(x, out):
    """The numbers backwards, which are 0 now."""
    return {0: np.zeros_like(x), **backwards(x, out)}


CASES = (
    Case("counted_copy_reads", cuda_cpp(__file__, SOURCE, "counted<false>"), 1, 64, numbers(64), defective=True),
    Case("counted_copy_has_read", cuda_cpp(__file__, SOURCE, "counted<true>"), 1, 64, numbers(64), cleared),
)
