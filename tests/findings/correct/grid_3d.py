"""A three-dimensional grid over a volume whose extents are no multiples of the block's."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def grid_3d(volume, weights, out):
    x, y, z = cuda.grid(3)
    if z < out.shape[0] and y < out.shape[1] and x < out.shape[2]:
        out[z, y, x] = volume[z, y, x] * weights[0, z] + weights[1, y] - weights[2, x]


def arguments(rng):
    return (
        rng.integers(-9, 9, (5, 7, 19)).astype(np.int64),
        rng.integers(-9, 9, (3, 19)).astype(np.int64),
        np.zeros((5, 7, 19), np.int64),
    )


def reference(volume, weights, out):
    return {2: volume * weights[0, :5, None, None] + weights[1, :7, None] - weights[2]}


CASES = (Case("grid_3d", grid_3d, (3, 2, 3), (8, 4, 2), arguments, reference, unwritten=(2,)),)
