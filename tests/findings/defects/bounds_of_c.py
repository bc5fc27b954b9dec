"""Bounds of C used for A and B: the guards hold, but of the wrong array."""

import numpy as np
from case import Case
from numba import cuda, float32

T = 16


@cuda.jit
def bounds_of_c(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], T):
        tile_a[ty, tx] = 0
        tile_b[ty, tx] = 0
        if row < c.shape[0] and start + tx < c.shape[1]:
            tile_a[ty, tx] = a[row, start + tx]  # finds: TW107
        if start + ty < c.shape[0] and column < c.shape[1]:
            tile_b[ty, tx] = b[start + ty, column]  # finds: TW101
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


@cuda.jit
def bounds_of_each(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], T):
        tile_a[ty, tx] = 0
        tile_b[ty, tx] = 0
        if row < a.shape[0] and start + tx < a.shape[1]:
            tile_a[ty, tx] = a[row, start + tx]
        if start + ty < b.shape[0] and column < b.shape[1]:
            tile_b[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


def arguments(rng):
    return (
        rng.integers(-9, 9, (30, 24)).astype(np.float32),
        rng.integers(-9, 9, (24, 40)).astype(np.float32),
        np.zeros((30, 40), np.float32),
    )


def reference(a, b, c):
    return {2: a @ b}


CASES = (
    Case("bounds_of_c", bounds_of_c, (3, 2), (T, T), arguments, defective=True),
    Case("bounds_of_each", bounds_of_each, (3, 2), (T, T), arguments, reference),
)
