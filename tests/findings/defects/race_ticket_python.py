"""The ticket pattern in Python: the fence comes after the ticket instead of before it."""

import numpy as np
from case import Case
from numba import cuda


def ticketed(*, fence_before):
    @cuda.jit
    def last_block_sums(x, partial, tickets, total):
        if cuda.threadIdx.x == 0:
            partial[cuda.blockIdx.x] = x[cuda.blockIdx.x] * 3  # finds: TW303
            if fence_before:
                cuda.threadfence()
            ticket = cuda.atomic.add(tickets, 0, 1)
            cuda.threadfence()
            if ticket == cuda.gridDim.x - 1:
                all_of_it = 0
                for i in range(cuda.gridDim.x):
                    all_of_it += partial[i]
                total[0] = all_of_it

    return last_block_sums


def arguments(rng):
    return rng.integers(1, 99, 7), np.zeros(7, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int64)


def reference(x, partial, tickets, total):
    return {1: x * 3, 3: [3 * x.sum()]}


CASES = (
    Case("fence_too_late", ticketed(fence_before=False), 7, 32, arguments, defective=True),
    Case("fence_before", ticketed(fence_before=True), 7, 32, arguments, reference),
)
