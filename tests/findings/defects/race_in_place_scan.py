"""A scan in one buffer: a lane reads its neighbour's sum while the neighbour may be writing it."""

import numpy as np
from case import Case
from numba import cuda, int32

BLOCK = 32


@cuda.jit
def in_place(x, out):
    s = cuda.shared.array(BLOCK, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    shift = 1
    while shift < BLOCK:
        if t >= shift:
            s[t] += s[t - shift]  # finds: TW304
        cuda.syncthreads()
        shift *= 2
    out[t] = s[t]


@cuda.jit
def read_then_write(x, out):
    s = cuda.shared.array(BLOCK, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    shift = 1
    while shift < BLOCK:
        left = s[t - shift] if t >= shift else int32(0)
        cuda.syncthreads()
        s[t] += left
        cuda.syncthreads()
        shift *= 2
    out[t] = s[t]


def arguments(rng):
    return rng.integers(1, 99, BLOCK).astype(np.int32), np.zeros(BLOCK, np.int32)


def reference(x, out):
    return {1: np.cumsum(x)}


CASES = (
    Case("scan_in_place", in_place, 1, BLOCK, arguments, defective=True),
    Case("scan_read_then_write", read_then_write, 1, BLOCK, arguments, reference),
)
