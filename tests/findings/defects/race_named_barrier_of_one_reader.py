"""Two warps read what a third overwrites behind a named barrier: one of the two goes past it."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
template <bool all>
__global__ void overwritten(const int *x, int *out) {
    __shared__ int tile[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 2) tile[lane] = x[lane];
    __syncthreads();
    if (warp < 2) out[threadIdx.x] = tile[31 - lane];
    if (all || warp) asm volatile("bar.sync 1, %0;" ::"r"(all ? 96 : 64) : "memory");
    if (warp == 2) tile[lane] = 0;  // finds: TW301
}
"""


def arguments(rng):
    return rng.integers(1, 99, 32).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: [*x[::-1], *x[::-1]]}


CASES = (
    Case("met_by_one", cuda_cpp(__file__, SOURCE, "overwritten<false>"), 1, 96, arguments, defective=True),
    Case("met_by_all", cuda_cpp(__file__, SOURCE, "overwritten<true>"), 1, 96, arguments, reference),
)
