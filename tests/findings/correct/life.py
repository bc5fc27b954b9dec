"""One step of the game of life on a torus of bytes."""

import numpy as np
from case import Case
from numba import cuda, uint8

TILE = 16
HALO = TILE + 2


@cuda.jit
def life(board, after):
    tile = cuda.shared.array((HALO, HALO), uint8)
    rows, columns = board.shape
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    left = cuda.blockIdx.x * TILE - 1
    top = cuda.blockIdx.y * TILE - 1
    for cell in range(ty * TILE + tx, HALO * HALO, TILE * TILE):
        cy = cell // HALO
        cx = cell % HALO
        tile[cy, cx] = board[(top + cy) % rows, (left + cx) % columns]
    cuda.syncthreads()
    x, y = cuda.grid(2)
    if y < rows and x < columns:
        alive = 0
        for dy in range(3):
            for dx in range(3):
                alive += tile[ty + dy, tx + dx]
        own = tile[ty + 1, tx + 1]
        after[y, x] = 1 if alive == 3 or (own == 1 and alive == 4) else 0


def arguments(rng):
    return rng.integers(0, 2, (21, 40)).astype(np.uint8), np.zeros((21, 40), np.uint8)


def reference(board, after):
    around = sum(np.roll(board, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1))
    return {1: (around == 3) | (board == 1) & (around == 4)}


CASES = (Case("life", life, (3, 2), (TILE, TILE), arguments, reference, unwritten=(1,)),)
