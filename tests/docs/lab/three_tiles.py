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
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(0, a.shape[1], TILE):
        tile_a[y, x] = a[row, k + x] if row < a.shape[0] and k + x < a.shape[1] else float32(0)
        tile_b[y, x] = b[k + y, column] if k + y < b.shape[0] and column < b.shape[1] else float32(0)
        cuda.syncthreads()
        for i in range(TILE):
            total += tile_a[y, i] * tile_b[i, x]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total
