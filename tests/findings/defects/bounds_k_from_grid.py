"""The k loop's length is taken from the grid, which has more tiles than A has columns: rows run over."""

from case import Case, matrices, product
from numba import cuda, float32

T = 8


@cuda.jit
def steps_from_grid(a, b, c):
    column, row = cuda.grid(2)
    total = float32(0)
    for step in range(cuda.gridDim.x):
        for k in range(step * T, step * T + T):
            left = a[row, k]  # finds: TW107
            total += left * b[k, column]  # finds: TW101
    c[row, column] = total


@cuda.jit
def steps_from_a(a, b, c):
    column, row = cuda.grid(2)
    total = float32(0)
    for step in range(a.shape[1] // T):
        for k in range(step * T, step * T + T):
            left = a[row, k]
            total += left * b[k, column]
    c[row, column] = total


OPERANDS = matrices(8, 8, 16)
CASES = (
    Case("k_from_wider_grid", steps_from_grid, (2, 1), (T, T), OPERANDS, defective=True),
    Case("k_from_narrow_a", steps_from_a, (2, 1), (T, T), OPERANDS, product),
)
