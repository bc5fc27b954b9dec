"""A barrier in each branch: lanes of one warp wait at two different ones."""

import numpy as np
from case import Case, numbers
from numba import cuda, int32


@cuda.jit
def one_in_each_branch(x, out):
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    if t % 2 == 0:
        tile[t] = x[t]
        cuda.syncthreads()  # finds: TW401
        out[t] = tile[t + 1]
    else:
        tile[t] = -x[t]
        cuda.syncthreads()  # finds: TW401
        out[t] = tile[t - 1] * 2


@cuda.jit
def one_for_both(x, out):
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    if t % 2 == 0:
        tile[t] = x[t]
    else:
        tile[t] = -x[t]
    cuda.syncthreads()
    if t % 2 == 0:
        out[t] = tile[t + 1]
    else:
        out[t] = tile[t - 1] * 2


def reference(x, out):
    even = np.arange(64) % 2 == 0
    return {1: np.where(even, -np.roll(x, -1), 2 * np.roll(x, 1))}


CASES = (
    Case("barrier_in_each_branch", one_in_each_branch, 1, 64, numbers(64), defective=True),
    Case("barrier_for_both", one_for_both, 1, 64, numbers(64), reference),
)
