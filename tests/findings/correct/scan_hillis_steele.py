"""Inclusive scan after Hillis and Steele, between two buffers in shared memory."""

import numpy as np
from case import Case
from numba import cuda, int32

BLOCK = 128


@cuda.jit
def scan_hillis_steele(x, out):
    buffers = cuda.shared.array((2, BLOCK), int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    source = 0
    buffers[0, t] = x[i]
    cuda.syncthreads()
    shift = 1
    while shift < BLOCK:
        value = buffers[source, t]
        if t >= shift:
            value += buffers[source, t - shift]
        buffers[1 - source, t] = value
        source = 1 - source
        cuda.syncthreads()
        shift *= 2
    out[i] = buffers[source, t]


def arguments(rng):
    return rng.integers(-100, 100, 2 * BLOCK).astype(np.int32), np.zeros(2 * BLOCK, np.int32)


def reference(x, out):
    return {1: np.cumsum(x.reshape(2, BLOCK), axis=1).ravel()}


CASES = (Case("scan_hillis_steele", scan_hillis_steele, 2, BLOCK, arguments, reference, unwritten=(1,)),)
