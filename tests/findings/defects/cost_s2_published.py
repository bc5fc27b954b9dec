"""S2 as published, on a shape for which it is right: what its `[tx, ty]` costs, with tx fastest.

Lanes of a warp differ in tx, so each takes another row of A, B and C, and words 16 apart of the tiles, in two banks.
What two threads of a column read of B's tile is one word: a broadcast.
"""

import numpy as np
from case import Case
from numba import cuda

from tilewright.gpu.kernels.tiled import tiled
from tilewright.gpu.kernels.tiled_published import tiled_published


def arguments(rng):
    return (
        rng.integers(-9, 9, (32, 32)).astype(np.float32),
        rng.integers(-9, 9, (32, 32)).astype(np.float32),
        np.zeros((32, 32), np.float32),
    )


def reference(a, b, c):
    return {2: a @ b}


FINDS = {
    "sA[tx, ty] = A[x, ty + i * TPB]": ("TW701", "TW702"),
    "sB[tx, ty] = B[tx + i * TPB, y]": ("TW701", "TW702"),
    "total += sA[tx, j] * sB[j, ty]": ("TW601", "TW701"),
    "C[x, y] = total": ("TW702",),
}

CASES = (
    Case("s2_strided", cuda.jit(tiled_published), (2, 2), (16, 16), arguments, defective=True, finds=FINDS),
    Case("s2_coalesced", cuda.jit(tiled()), (2, 2), (16, 16), arguments, reference),
)
