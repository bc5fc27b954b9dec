"""Every block adds its sum to one total, without an atomic."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def plain(x, total):
    if cuda.threadIdx.x == 0:
        own = 0
        for i in range(32):
            own += x[cuda.blockIdx.x * 32 + i]
        total[0] += own  # finds: TW303


@cuda.jit
def atomic(x, total):
    if cuda.threadIdx.x == 0:
        own = 0
        for i in range(32):
            own += x[cuda.blockIdx.x * 32 + i]
        cuda.atomic.add(total, 0, own)


def arguments(rng):
    return rng.integers(1, 99, 160), np.zeros(1, np.int64)


def reference(x, total):
    return {1: [x.sum()]}


CASES = (
    Case("block_sums_plain", plain, 5, 32, arguments, defective=True),
    Case("block_sums_atomic", atomic, 5, 32, arguments, reference),
)
