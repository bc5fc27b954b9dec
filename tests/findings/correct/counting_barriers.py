"""Barriers that count, and that tell whether any or all threads hold a condition; a uniform loop leaves by one."""

import numpy as np
from case import Case
from numba import cuda, int32


@cuda.jit
def counting_barriers(x, out, rounds):
    i = cuda.grid(1)
    value = x[i]
    count = 0
    while cuda.syncthreads_or(int32(value > 1)):
        if value > 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
        count += 1
    out[i] = cuda.syncthreads_count(int32(x[i] % 2 == 0)) + 1000 * cuda.syncthreads_and(int32(x[i] > 0))
    if cuda.threadIdx.x == 0:
        rounds[cuda.blockIdx.x] = count


def arguments(rng):
    return rng.integers(1, 30, 128).astype(np.int32), np.zeros(128, np.int32), np.zeros(2, np.int32)


def reference(x, out, rounds):
    def steps(value):
        return 0 if value == 1 else 1 + steps(value // 2 if value % 2 == 0 else 3 * value + 1)

    halves = x.reshape(2, 64)
    even = np.repeat((halves % 2 == 0).sum(axis=1), 64)
    return {1: even + 1000, 2: [max(map(steps, half.tolist())) for half in halves]}


CASES = (Case("counting_barriers", counting_barriers, 2, 64, arguments, reference, unwritten=(1, 2)),)
