"""1. Let neighbouring lanes read neighbours. Goal: at most 45,000 sectors loaded.

The kernel is right. Which index of C should follow `threadIdx.x`? The grid must follow.
"""

from numba import cuda, float32

BLOCK = 32, 8


def grid(m, n):
    return -(-n // 32), -(-m // 8)


@cuda.jit
def product(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total
