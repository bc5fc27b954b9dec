"""Transposition through a shared tile with one column more than it needs, so that its columns share no bank."""

import numpy as np
from case import Case
from numba import cuda, float32

TILE = 32
PITCH = TILE + 1
ROWS = 8


@cuda.jit
def transpose_tile(a, out):
    tile = cuda.shared.array((TILE, PITCH), float32)
    left = cuda.blockIdx.x * TILE
    top = cuda.blockIdx.y * TILE
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    for r in range(ty, TILE, ROWS):
        if top + r < a.shape[0] and left + tx < a.shape[1]:
            tile[r, tx] = a[top + r, left + tx]
    cuda.syncthreads()
    for r in range(ty, TILE, ROWS):
        if left + r < out.shape[0] and top + tx < out.shape[1]:
            out[left + r, top + tx] = tile[tx, r]


def arguments(rng):
    return rng.random((70, 45), np.float32), np.zeros((45, 70), np.float32)


def reference(a, out):
    return {1: a.T}


CASES = (Case("transpose_tile", transpose_tile, (2, 3), (TILE, ROWS), arguments, reference, unwritten=(1,)),)
