"""Every block adds its sum to one total, without an atomic."""

import numpy as np
from case import Case
from numba import cuda


def summed(*, atomic):
    @cuda.jit
    def add(x, total):
        if cuda.threadIdx.x == 0:
            own = 0
            for i in range(32):
                own += x[cuda.blockIdx.x * 32 + i]
            if atomic:
                cuda.atomic.add(total, 0, own)
            else:
                total[0] += own  # finds: TW303

    return add


def arguments(rng):
    return rng.integers(1, 99, 160), np.zeros(1, np.int64)


def reference(x, total):
    return {1: [x.sum()]}


CASES = (
    Case("block_sums_plain", summed(atomic=False), 5, 32, arguments, defective=True),
    Case("block_sums_atomic", summed(atomic=True), 5, 32, arguments, reference),
)
