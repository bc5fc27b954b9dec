"""The barrier after the load is missing.

A row of A's tile is used by the warp that loaded it, a column of B's tile by all: one race is among lanes, one among
warps."""

import numpy as np
from case import Case
from numba import cuda, float32

T = 32


@cuda.jit
def missing(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], T):
        tile_a[ty, tx] = a[row, start + tx]  # finds: TW304
        tile_b[ty, tx] = b[start + ty, column]  # finds: TW301
        for k in range(T):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    c[row, column] = total


@cuda.jit
def both(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], T):
        tile_a[ty, tx] = a[row, start + tx]
        tile_b[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    c[row, column] = total


def arguments(rng):
    return (
        rng.random((T, T), np.float32),
        rng.random((T, T), np.float32),
        np.zeros((T, T), np.float32),
    )


def reference(a, b, c):
    return {2: a @ b}


CASES = (
    Case("race_after_load", missing, (1, 1), (T, T), arguments, defective=True),
    Case("race_after_load_both", both, (1, 1), (T, T), arguments, reference, rtol=1e-4),
)
