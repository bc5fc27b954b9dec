"""Tiles loaded without a guard: the last step runs past the rows of A and past the end of B."""

import numpy as np
from case import Case
from numba import cuda, float32

T = 16


@cuda.jit
def unguarded(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], T):
        tile_a[ty, tx] = a[row, start + tx]  # finds: TW107
        tile_b[ty, tx] = b[start + ty, column]  # finds: TW101
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    c[row, column] = total


@cuda.jit
def guarded(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], T):
        tile_a[ty, tx] = a[row, start + tx] if start + tx < a.shape[1] else float32(0)
        tile_b[ty, tx] = b[start + ty, column] if start + ty < b.shape[0] else float32(0)
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    c[row, column] = total


def arguments(rng):
    return (
        rng.integers(-9, 9, (16, 24)).astype(np.float32),
        rng.integers(-9, 9, (24, 32)).astype(np.float32),
        np.zeros((16, 32), np.float32),
    )


def reference(a, b, c):
    return {2: a @ b}


CASES = (
    Case("tile_load", unguarded, (2, 1), (T, T), arguments, defective=True),
    Case("tile_load_guarded", guarded, (2, 1), (T, T), arguments, reference),
)
