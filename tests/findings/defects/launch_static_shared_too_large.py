"""More static shared memory than any GPU's block can have."""

import numpy as np
from case import Case, backwards
from numba import cuda, float64


@cuda.jit
def too_large(x, out):  # finds: TW505
    tile = cuda.shared.array((200, 200), float64)
    t = cuda.threadIdx.x
    tile[t, 0] = x[t]
    cuda.syncthreads()
    out[t] = tile[63 - t, 0]


@cuda.jit
def small(x, out):
    tile = cuda.shared.array((64, 2), float64)
    t = cuda.threadIdx.x
    tile[t, 0] = x[t]
    cuda.syncthreads()
    out[t] = tile[63 - t, 0]


def arguments(rng):
    return rng.random(64), np.zeros(64)


CASES = (
    Case("too_much_static_shared", too_large, 1, 64, arguments, defective=True),
    Case("little_static_shared", small, 1, 64, arguments, backwards),
)
