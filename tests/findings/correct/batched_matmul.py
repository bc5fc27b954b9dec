"""Products of many small matrices, the batch in the grid's third extent."""

import numpy as np
from case import Case, product
from numba import cuda, float32


@cuda.jit
def batched_matmul(a, b, c):
    column, row, batch = cuda.grid(3)
    if batch < c.shape[0] and row < c.shape[1] and column < c.shape[2]:
        total = float32(0)
        for k in range(a.shape[2]):
            total += a[batch, row, k] * b[batch, k, column]
        c[batch, row, column] = total


def arguments(rng):
    return (
        rng.integers(-9, 9, (6, 5, 7)).astype(np.float32),
        rng.integers(-9, 9, (6, 7, 9)).astype(np.float32),
        np.zeros((6, 5, 9), np.float32),
    )


CASES = (Case("batched_matmul", batched_matmul, (2, 2, 3), (8, 4, 2), arguments, product, unwritten=(2,)),)
