"""Lanes that are in a branch together elect one that adds for all, and shuffle among themselves only."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def aggregated_atomics(x, kept, count):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x % 32
    if i < x.size and x[i] > 0:
        together = cuda.activemask()
        leader = cuda.ffs(together) - 1
        first = 0
        if lane == leader:
            first = cuda.atomic.add(count, 0, cuda.popc(together))
        first = cuda.shfl_sync(together, first, leader)
        kept[first + cuda.popc(together & cuda.lanemask_lt())] = x[i]


def arguments(rng):
    return rng.integers(-99, 99, 200).astype(np.int32), np.zeros(200, np.int32), np.zeros(1, np.int32)


def reference(x, kept, count):
    chosen = x[x > 0]
    return {1: np.pad(chosen, (0, 200 - chosen.size)), 2: [chosen.size]}


CASES = (Case("aggregated_atomics", aggregated_atomics, 4, 64, arguments, reference, settled=np.sort),)
