"""S2 as published, on a shape for which it is right: what its `[tx, ty]` costs, with tx fastest.

Lanes of a warp differ in tx, so each takes another row of A, B and C, and words 16 apart of the tiles, in two banks.
What two threads of a column read of B's tile is one word: a broadcast.
"""

from case import Case, matrices, product
from numba import cuda

from tilewright.multiply.kernels.tiled import tiled
from tilewright.multiply.kernels.tiled_published import tiled_published

FINDS = {
    "sA[tx, ty] = A[x, ty + i * TPB]": ("TW701", "TW702"),
    "sB[tx, ty] = B[tx + i * TPB, y]": ("TW701", "TW702"),
    "total += sA[tx, j] * sB[j, ty]": ("TW601", "TW701"),
    "C[x, y] = total": ("TW702",),
}

OPERANDS = matrices(32, 32, 32)
CASES = (
    Case("s2_strided", cuda.jit(tiled_published), (2, 2), (16, 16), OPERANDS, defective=True, finds=FINDS),
    Case("s2_coalesced", cuda.jit(tiled()), (2, 2), (16, 16), OPERANDS, product),
)
