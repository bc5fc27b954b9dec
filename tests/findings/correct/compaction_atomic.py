"""Keep the elements above a threshold: an atomic counter gives each its place, so their order is open.

Most of the output stays as it is: how many elements are kept is known only afterwards.
"""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def compaction_atomic(x, threshold, kept, count):
    i = cuda.grid(1)
    if i < x.size and x[i] > threshold:
        at = cuda.atomic.add(count, 0, 1)
        kept[at] = x[i]


def arguments(rng):
    return rng.integers(-100, 100, 300).astype(np.int32), 50, np.zeros(300, np.int32), np.zeros(1, np.int32)


def reference(x, threshold, kept, count):
    chosen = x[x > threshold]
    return {2: np.pad(chosen, (0, 300 - chosen.size)), 3: [chosen.size]}


CASES = (Case("compaction_atomic", compaction_atomic, 5, 64, arguments, reference, settled=np.sort),)
