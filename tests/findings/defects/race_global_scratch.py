"""Warps of a block exchange through global memory without a barrier."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def no_barrier(x, scratch, out):
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * 64
    scratch[first + t] = x[first + t] * 2  # finds: TW302
    out[first + t] = scratch[first + 63 - t]


@cuda.jit
def barrier(x, scratch, out):
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * 64
    scratch[first + t] = x[first + t] * 2
    cuda.syncthreads()
    out[first + t] = scratch[first + 63 - t]


def arguments(rng):
    return rng.permutation(128).astype(np.int32), np.zeros(128, np.int32), np.zeros(128, np.int32)


def reference(x, scratch, out):
    return {1: 2 * x, 2: 2 * x.reshape(2, 64)[:, ::-1].ravel()}


CASES = (
    Case("scratch_no_barrier", no_barrier, 2, 64, arguments, defective=True),
    Case("scratch_barrier", barrier, 2, 64, arguments, reference),
)
