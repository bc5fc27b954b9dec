"""S1 in Python, one thread for each element: as published, and corrected.

The published kernel has two weak points, both visible in its counts. The sum starts as the Python float `0.`, which
Numba types float64: a float32 product is rounded to float32, then summed in double. And the row follows `threadIdx.x`,
so the lanes of a warp touch 16 rows of A and of C at once.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from tilewright.multiply.kernels.multiply_add import multiply_add


def naive_published(A: Any, B: Any, C: Any) -> None:
    """S1 as published, for A (m, k), B (k, n), C (m, n); grid (ceil(m / bx), ceil(n / by)) for blocks of (bx, by)."""
    i, j = cuda.grid(2)
    if i < C.shape[0] and j < C.shape[1]:
        total = 0.0
        for k in range(A.shape[1]):
            total += A[i, k] * B[k, j]
        C[i, j] = total


@functools.lru_cache(maxsize=16)
def naive(dtype: str = "float32") -> Callable[..., None]:
    """Make S1, corrected, for one dtype: the sum has the dtype's width, and the column follows `threadIdx.x`.

    Launch with a grid of (ceil(n / bx), ceil(m / by)) for blocks of (bx, by).

    >>> naive("float64").__name__
    'naive'
    """
    fused = multiply_add(dtype)
    zero = np.dtype(dtype).type(0)

    def naive(A: Any, B: Any, C: Any) -> None:
        j, i = cuda.grid(2)
        if i < C.shape[0] and j < C.shape[1]:
            total = zero
            for k in range(A.shape[1]):
                total = fused(A[i, k], B[k, j], total)
            C[i, j] = total

    return naive
