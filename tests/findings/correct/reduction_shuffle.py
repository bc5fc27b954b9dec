"""Reduction by warp shuffles: each warp sums its lanes, the first warp the sums of the warps."""

import numpy as np
from case import Case
from numba import cuda, int32

FULL = 0xFFFFFFFF


@cuda.jit
def reduction_shuffle(x, sums):
    warp_sums = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    lane = t % 32
    total = int32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    for shift in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(FULL, total, shift)
    if lane == 0:
        warp_sums[t // 32] = total
    cuda.syncthreads()
    if t < 32:
        total = warp_sums[t] if t < cuda.blockDim.x // 32 else int32(0)
        for shift in (16, 8, 4, 2, 1):
            total += cuda.shfl_down_sync(FULL, total, shift)
        if t == 0:
            sums[cuda.blockIdx.x] = total


def arguments(rng):
    return rng.integers(-1000, 1000, 1000).astype(np.int32), np.zeros(2, np.int32)


def reference(x, sums):
    return {1: np.pad(x, (0, 24)).reshape(4, 2, 128).sum(axis=(0, 2), dtype=np.int32)}


CASES = (Case("reduction_shuffle", reduction_shuffle, 2, 128, arguments, reference, unwritten=(1,)),)
