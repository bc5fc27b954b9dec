"""Edge tiles are not filled: where the guard holds a load back, the tile keeps what was there."""

import numpy as np
from case import Case
from numba import cuda, float32

T = 16


@cuda.jit
def not_filled(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], T):
        if row < a.shape[0] and start + tx < a.shape[1]:
            tile_a[ty, tx] = a[row, start + tx]
        if start + ty < b.shape[0] and column < b.shape[1]:
            tile_b[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[ty, k] * tile_b[k, tx]  # finds: TW202
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


@cuda.jit
def filled(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], T):
        if row < a.shape[0] and start + tx < a.shape[1]:
            tile_a[ty, tx] = a[row, start + tx]
        else:
            tile_a[ty, tx] = 0
        if start + ty < b.shape[0] and column < b.shape[1]:
            tile_b[ty, tx] = b[start + ty, column]
        else:
            tile_b[ty, tx] = 0
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


def arguments(rng):
    return (
        rng.integers(-9, 9, (13, 10)).astype(np.float32),
        rng.integers(-9, 9, (10, 21)).astype(np.float32),
        np.zeros((13, 21), np.float32),
    )


def reference(a, b, c):
    return {2: a @ b}


CASES = (
    Case("edge_tile_not_filled", not_filled, (2, 1), (T, T), arguments, defective=True),
    Case("edge_tile_filled", filled, (2, 1), (T, T), arguments, reference),
)
