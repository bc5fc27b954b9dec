"""Binary search in a sorted table, of which most elements are never looked at."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def binary_search(table, wanted, places):
    i = cuda.grid(1)
    if i < wanted.size:
        low = 0
        high = table.size
        while low < high:
            middle = (low + high) // 2
            if table[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        places[i] = low


def arguments(rng):
    table = np.sort(rng.integers(0, 10**6, 1000)).astype(np.int32)
    return table, rng.integers(0, 10**6, 50).astype(np.int32), np.zeros(50, np.int64)


def reference(table, wanted, places):
    return {2: np.searchsorted(table, wanted)}


CASES = (Case("binary_search", binary_search, 2, 32, arguments, reference, unwritten=(2,)),)
