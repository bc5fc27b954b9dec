"""Warps that have nothing to do leave; those that stay meet at a barrier that counts only them."""

import numpy as np
from case import Case, backwards, cuda_cpp

SOURCE = r"""
__global__ void extra_warps_leave(const int *x, int *out) {
    __shared__ int tile[64];
    const int t = threadIdx.x;
    if (t >= 64) {
        return;
    }
    tile[t] = x[t];
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[t] = tile[63 - t];
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 64).astype(np.int32), np.zeros(64, np.int32)


KERNEL = cuda_cpp(__file__, SOURCE, "extra_warps_leave")
CASES = (Case("extra_warps_leave", KERNEL, 1, 160, arguments, backwards, unwritten=(1,)),)
