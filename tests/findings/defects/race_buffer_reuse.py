"""Shared words that hand a value to a warp each are used again without a barrier after they were read."""

import numpy as np
from case import Case
from numba import cuda, int32


@cuda.jit
def used_again(x, out):
    shared = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    total = 0
    for step in range(x.shape[0]):
        if t < 2:
            shared[t] = x[step] + t  # finds: TW301
        cuda.syncthreads()
        total += shared[t // 32]
    out[t] = total


@cuda.jit
def used_after_a_barrier(x, out):
    shared = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    total = 0
    for step in range(x.shape[0]):
        cuda.syncthreads()
        if t < 2:
            shared[t] = x[step] + t
        cuda.syncthreads()
        total += shared[t // 32]
    out[t] = total


def arguments(rng):
    return rng.integers(1, 99, 5).astype(np.int32), np.zeros(64, np.int64)


def reference(x, out):
    return {1: np.repeat([x.sum(), x.sum() + 5], 32)}


CASES = (
    Case("broadcast_used_again", used_again, 1, 64, arguments, defective=True),
    Case("broadcast_after_a_barrier", used_after_a_barrier, 1, 64, arguments, reference),
)
