"""Copies arrive at an mbarrier that nobody awaits: a barrier of the block does not wait for them."""

import numpy as np
from case import Case, backwards
from numba import cuda

from tilewright.gpu.intrinsics import (
    cp_async_ca_4,
    cp_async_mbarrier_arrive_noinc,
    mbarrier_init,
    mbarrier_try_wait_parity,
)


def copies(awaited):
    @cuda.jit
    def kernel(x, out):
        tile, copied = cuda.shared.array(64, np.float32), cuda.shared.array(1, np.uint64)
        t = cuda.threadIdx.x
        if t == 0:
            mbarrier_init(copied, 0, 64)
        cuda.syncthreads()
        cp_async_ca_4(tile, t, x, t)
        cp_async_mbarrier_arrive_noinc(copied, 0)
        while awaited and not mbarrier_try_wait_parity(copied, 0, 0):
            pass
        cuda.syncthreads()
        out[t] = tile[63 - t]  # finds: TW306

    return kernel


def arguments(rng):
    return rng.standard_normal(64).astype(np.float32), np.zeros(64, np.float32)


CASES = (
    Case("copies_arrive", copies(False), 1, 64, arguments, defective=True),
    Case("copies_awaited", copies(True), 1, 64, arguments, backwards),
)
