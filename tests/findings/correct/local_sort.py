"""Each thread sorts a row in an array of its own in local memory."""

import numpy as np
from case import Case
from numba import cuda, float32

WIDTH = 9


@cuda.jit
def local_sort(rows, medians):
    own = cuda.local.array(WIDTH, float32)
    i = cuda.grid(1)
    if i >= rows.shape[0]:
        return
    for j in range(WIDTH):
        value = rows[i, j]
        at = j
        while at > 0 and own[at - 1] > value:
            own[at] = own[at - 1]
            at -= 1
        own[at] = value
    medians[i] = own[WIDTH // 2]


def arguments(rng):
    return rng.random((70, WIDTH), np.float32), np.zeros(70, np.float32)


def reference(rows, medians):
    return {1: np.median(rows, axis=1)}


CASES = (Case("local_sort", local_sort, 3, 32, arguments, reference, unwritten=(1,)),)
