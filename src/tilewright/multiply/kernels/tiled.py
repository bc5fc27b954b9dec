"""S2, corrected: shared-memory tiles in Python, for any m, n and k.

Five things differ from the published kernel (`tiled_published.py`): no thread leaves before a barrier; the k loop's
length comes from A; edge tiles are filled; tiles are indexed `[ty, tx]`, so neighbouring lanes touch neighbouring
words; and the sum has the dtype's own width.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from tilewright.multiply.kernels.multiply_add import multiply_add


@functools.lru_cache(maxsize=64)
def tiled(dtype: str = "float32", edge: int = 16) -> Callable[..., None]:
    """Make the kernel for one dtype and tile edge.

    Launch with blocks of (edge, edge) and a grid of (ceil(n / edge), ceil(m / edge)); the kernel takes
    A of shape (m, k), B (k, n) and C (m, n).

    >>> tiled("float32", 16).__name__
    'tiled'
    """
    element = getattr(types, dtype)
    fused = multiply_add(dtype)
    zero = np.dtype(dtype).type(0)
    # Beyond A's columns a step must not change the sum, even a negative zero: +0 * -0 + c is c for every c,
    # while +0 * +0 + c would turn -0 into +0.
    minus_zero = np.dtype(dtype).type(-0.0)

    def tiled(A: Any, B: Any, C: Any) -> None:
        tile_a = cuda.shared.array((edge, edge), element)
        tile_b = cuda.shared.array((edge, edge), element)
        column, row = cuda.grid(2)
        tx = cuda.threadIdx.x
        ty = cuda.threadIdx.y
        m, k = A.shape
        n = B.shape[1]
        total = zero
        for start in range(0, k, edge):
            if row < m and start + tx < k:
                tile_a[ty, tx] = A[row, start + tx]
            else:
                tile_a[ty, tx] = zero
            if column < n and start + ty < k:
                tile_b[ty, tx] = B[start + ty, column]
            else:
                tile_b[ty, tx] = minus_zero
            cuda.syncthreads()
            for step in range(edge):
                total = fused(tile_a[ty, step], tile_b[step, tx], total)
            cuda.syncthreads()
        if row < m and column < n:
            C[row, column] = total

    return tiled
