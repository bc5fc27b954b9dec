"""A grid by floor division with fewer elements than a block has threads: no block at all."""

import numpy as np
from case import Case
from numba import cuda

N = 100


@cuda.jit
def doubled(x, out):  # finds: TW507
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


def arguments(rng):
    return rng.random(N), np.zeros(N)


def reference(x, out):
    return {1: 2 * x}


CASES = (
    Case("empty_grid", doubled, N // 256, 256, arguments, defective=True),
    Case("grid_rounded_up", doubled, (N + 255) // 256, 256, arguments, reference),
)
