"""The guard is missing: the last block's surplus threads read and write past the ends of their arrays."""

import numpy as np
from case import Case, doubled
from numba import cuda, float32


@cuda.jit
def unguarded(x, out):
    i = cuda.grid(1)
    out[i] = x[i] * float32(2)  # finds: TW101


@cuda.jit
def guarded(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * float32(2)


def arguments(rng):
    return rng.random(100, np.float32), np.zeros(100, np.float32)


CASES = (
    Case("no_guard", unguarded, 4, 32, arguments, defective=True),
    Case("guarded", guarded, 4, 32, arguments, doubled),
)
