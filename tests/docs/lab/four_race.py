"""4. Find the race. Goal: no finding, and at most one barrier for each step of the sum.

A block of 128 threads adds the products of a row of A and a column of B, in pairs: 64 with 64, then 32 with 32, ...
The results can be right by luck. `tilewright check` says what races. Where must threads wait?
"""

from numba import cuda, float32

BLOCK = 128


def grid(m, n):
    return n, m


@cuda.jit
def product(a, b, c):
    parts = cuda.shared.array(128, float32)
    column, row, x = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    total = float32(0)
    for k in range(x, a.shape[1], 128):
        total += a[row, k] * b[k, column]
    parts[x] = total
    half = 64
    while half > 0:
        cuda.syncthreads()
        if x < half:
            parts[x] += parts[x + half]
        half //= 2
    if x == 0:
        c[row, column] = parts[0]
