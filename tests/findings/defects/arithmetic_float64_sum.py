"""A sum that starts as a Python float: a product of float32 matrices is added up in float64."""

from case import Case, matrices, product
from numba import cuda, float32


@cuda.jit
def python_float(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]  # finds: TW601
        c[row, column] = total


@cuda.jit
def own_width(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


OPERANDS = matrices(9, 6, 10)
CASES = (
    Case("float64_sum", python_float, (2, 2), (8, 8), OPERANDS, defective=True),
    Case("float32_sum", own_width, (2, 2), (8, 8), OPERANDS, product),
)
