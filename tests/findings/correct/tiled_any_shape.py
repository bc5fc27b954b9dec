"""Matrix product through shared tiles of 16 by 16 for shapes that are no multiples: the corrected form of S2."""

import numpy as np
from case import Case
from numba import cuda, float32

TILE = 16


@cuda.jit
def tiled_any_shape(a, b, c):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        tile_a[ty, tx] = 0
        tile_b[ty, tx] = 0
        if row < a.shape[0] and start + tx < a.shape[1]:
            tile_a[ty, tx] = a[row, start + tx]
        if start + ty < b.shape[0] and column < b.shape[1]:
            tile_b[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


def arguments(rng):
    return (
        rng.integers(-9, 9, (20, 37)).astype(np.float32),
        rng.integers(-9, 9, (37, 23)).astype(np.float32),
        np.zeros((20, 23), np.float32),
    )


def reference(a, b, c):
    return {2: a @ b}


CASES = (Case("tiled_any_shape", tiled_any_shape, (2, 2), (TILE, TILE), arguments, reference, unwritten=(2,)),)
