"""Matrix product with two tiles of each operand: the next is filled while this one is used, one barrier a step."""

from case import Case, matrices, product
from numba import cuda, float32

T = 8


@cuda.jit
def double_buffer(a, b, c):
    tile_a = cuda.shared.array((2, T, T), float32)
    tile_b = cuda.shared.array((2, T, T), float32)
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    tile_a[0, ty, tx] = a[row, tx]
    tile_b[0, ty, tx] = b[ty, column]
    cuda.syncthreads()
    steps = a.shape[1] // T
    for step in range(steps):
        here = step % 2
        if step + 1 < steps:
            tile_a[1 - here, ty, tx] = a[row, (step + 1) * T + tx]
            tile_b[1 - here, ty, tx] = b[(step + 1) * T + ty, column]
        for k in range(T):
            total += tile_a[here, ty, k] * tile_b[here, k, tx]
        cuda.syncthreads()
    c[row, column] = total


CASES = (Case("double_buffer", double_buffer, (3, 2), (T, T), matrices(16, 40, 24), product, unwritten=(2,)),)
