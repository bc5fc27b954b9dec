"""5. Let a thread compute four elements of a column. Goal: at most 11,000 wavefronts of shared memory loaded.

The tiles are 16 wide; a block of 16 x 4 threads has 16 x 16 of C. One word of B serves all four sums, if a register
keeps it. Start from your third solution: rows y, y + 4, y + 8 and y + 12 are one thread's.
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
