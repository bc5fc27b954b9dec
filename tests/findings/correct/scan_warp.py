"""Inclusive scan by warp shuffles; the scan of the warps' sums goes through shared memory."""

import numpy as np
from case import Case
from numba import cuda, int32

FULL = 0xFFFFFFFF


@cuda.jit(device=True)
def warp_scan(value, lane):
    shift = 1
    while shift < 32:
        other = cuda.shfl_up_sync(FULL, value, shift)
        if lane >= shift:
            value += other
        shift *= 2
    return value


@cuda.jit
def scan_warp(x, out):
    warp_sums = cuda.shared.array(32, int32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    lane = t % 32
    warp = t // 32
    value = warp_scan(x[i], lane)
    if lane == 31:
        warp_sums[warp] = value
    cuda.syncthreads()
    if warp == 0:
        before = warp_scan(warp_sums[lane] if lane < cuda.blockDim.x // 32 else int32(0), lane)
        warp_sums[lane] = before
    cuda.syncthreads()
    if warp > 0:
        value += warp_sums[warp - 1]
    out[i] = value


def arguments(rng):
    return rng.integers(-100, 100, 320).astype(np.int32), np.zeros(320, np.int32)


def reference(x, out):
    return {1: np.cumsum(x.reshape(2, 160), axis=1).ravel()}


CASES = (Case("scan_warp", scan_warp, 2, 160, arguments, reference, unwritten=(1,)),)
