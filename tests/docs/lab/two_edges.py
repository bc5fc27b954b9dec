"""2. Guard the edges. Goal: right on every shape, without a finding.

The grid is rounded up, so blocks at the edges have threads without an element of C. What may those do?
"""

from numba import cuda, float32

BLOCK = 16, 16


def grid(m, n):
    return -(-n // 16), -(-m // 16)


@cuda.jit
def product(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total
