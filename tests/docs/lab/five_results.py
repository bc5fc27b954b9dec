"""5. Let a thread compute four elements of a column. Goal: at most 11,000 wavefronts of shared memory loaded.

The tiles are 16 wide; a block of 16 x 4 threads has 16 x 16 of C. One word of B serves all four sums, if a register
keeps it. Start from your third solution: rows y, y + 4, y + 8 and y + 12 are one thread's.
"""

from numba import cuda, float32

TILE = 16
BLOCK = TILE, 4


def grid(m, n):
    return -(-n // TILE), -(-m // TILE)


@cuda.jit
def product(a, b, c):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    sums = cuda.local.array(4, float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, top = cuda.blockIdx.x * TILE + x, cuda.blockIdx.y * TILE
    for result in range(4):
        sums[result] = float32(0)
    for k in range(0, a.shape[1], TILE):
        for result in range(4):
            r = y + 4 * result
            tile_a[r, x] = a[top + r, k + x] if top + r < a.shape[0] and k + x < a.shape[1] else float32(0)
            tile_b[r, x] = b[k + r, column] if k + r < b.shape[0] and column < b.shape[1] else float32(0)
        cuda.syncthreads()
        for i in range(TILE):
            kept = tile_b[i, x]
            for result in range(4):
                sums[result] += tile_a[y + 4 * result, i] * kept
        cuda.syncthreads()
    for result in range(4):
        if top + y + 4 * result < c.shape[0] and column < c.shape[1]:
            c[top + y + 4 * result, column] = sums[result]
