"""Tiles of float32 fed with float64 matrices: digits are lost on the way to shared memory."""

import numpy as np
from case import Case, product
from numba import cuda, float32

from tilewright.multiply.kernels.tiled import tiled

T = 8


@cuda.jit
def narrow_tiles(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = 0.0
    for start in range(0, a.shape[1], T):
        tile_a[ty, tx] = a[row, start + tx]  # finds: TW604
        tile_b[ty, tx] = b[start + ty, column]  # finds: TW604
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    c[row, column] = total


def arguments(rng):
    return rng.random((16, 24)), rng.random((24, 8)), np.zeros((16, 8))


CASES = (
    Case("float32_tiles", narrow_tiles, (1, 2), (T, T), arguments, defective=True),
    Case("float64_tiles", cuda.jit(tiled("float64", T)), (1, 2), (T, T), arguments, product, rtol=1e-12),
)
