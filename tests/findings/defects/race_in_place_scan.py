"""A scan in one buffer: a lane reads its neighbour's sum while the neighbour may be writing it."""

import numpy as np
from case import Case, numbers
from numba import cuda, int32

BLOCK = 32


def scan(*, in_place):
    @cuda.jit
    def scanned(x, out):
        t = cuda.threadIdx.x
        shift = 1
        s = cuda.shared.array(BLOCK, int32)
        s[t] = x[t]
        cuda.syncthreads()
        while shift < BLOCK:
            if in_place:
                if t >= shift:
                    s[t] += s[t - shift]  # finds: TW304
            else:
                left = s[t - shift] if t >= shift else int32(0)
                cuda.syncthreads()
                s[t] += left
            cuda.syncthreads()
            shift *= 2
        out[t] = s[t]

    return scanned


def reference(x, out):
    return {1: np.cumsum(x)}


CASES = (
    Case("scan_in_place", scan(in_place=True), 1, BLOCK, numbers(BLOCK), defective=True),
    Case("scan_read_then_write", scan(in_place=False), 1, BLOCK, numbers(BLOCK), reference),
)
