"""3. Use tiles in shared memory. Goal: at most 5,000 sectors loaded, right on every shape.

Each step of k brings a tile of 16 x 16 of A and one of B to shared memory; then each thread adds 16 products. Fill
with 0 what lies outside A and B. Two barriers a step: what must be complete at each?
"""

from numba import cuda, float32

TILE = 16
BLOCK = TILE, TILE


def grid(m, n):
    return -(-n // TILE), -(-m // TILE)


@cuda.jit
def product(a, b, c):
    column, row = cuda.grid(2)
    total = float32(0)
    for k in range(a.shape[1]):  # step by TILE instead, with the tiles of that step
        if row < c.shape[0] and column < c.shape[1]:
            total += a[row, k] * b[k, column]
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total
