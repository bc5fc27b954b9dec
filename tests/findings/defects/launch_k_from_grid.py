"""The k loop's length is taken from the grid, which says how many tiles C has: columns of A are left out."""

import numpy as np
from case import Case
from numba import cuda, float32

T = 16


@cuda.jit
def steps_from_grid(a, b, c):  # finds: TW506
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for step in range(cuda.gridDim.x):
        tile_a[ty, tx] = a[row, step * T + tx]
        tile_b[ty, tx] = b[step * T + ty, column]
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    c[row, column] = total


@cuda.jit
def steps_from_a(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for step in range(a.shape[1] // T):
        tile_a[ty, tx] = a[row, step * T + tx]
        tile_b[ty, tx] = b[step * T + ty, column]
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    c[row, column] = total


def arguments(rng):
    return (
        rng.integers(-9, 9, (32, 64)).astype(np.float32),
        rng.integers(-9, 9, (64, 32)).astype(np.float32),
        np.zeros((32, 32), np.float32),
    )


def reference(a, b, c):
    return {2: a @ b}


CASES = (
    Case("k_from_grid", steps_from_grid, (2, 2), (T, T), arguments, defective=True),
    Case("k_from_a", steps_from_a, (2, 2), (T, T), arguments, reference),
)
