"""Columns of a shared tile whose rows are as long as there are banks: all lanes of a warp wait for one bank.

Lanes that read the same word share it; the first row's element, which all read, costs nothing.
"""

import numpy as np
from case import Case
from numba import cuda, float32

T = 32


def transposed(pitch):
    @cuda.jit
    def transpose(a, out):
        tile = cuda.shared.array((T, pitch), float32)
        tx = cuda.threadIdx.x
        ty = cuda.threadIdx.y
        tile[ty, tx] = a[ty, tx]
        cuda.syncthreads()
        corner = tile[0, 0]
        out[ty, tx] = corner + tile[tx, ty]  # finds: TW701

    return transpose


def arguments(rng):
    return rng.integers(1, 99, (T, T)).astype(np.float32), np.zeros((T, T), np.float32)


def reference(a, out):
    return {1: a.T + a[0, 0]}


CASES = (
    Case("rows_of_32_banks", transposed(T), (1, 1), (T, T), arguments, defective=True),
    Case("rows_of_33_words", transposed(T + 1), (1, 1), (T, T), arguments, reference),
)
