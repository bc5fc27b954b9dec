"""S2 as published, for shapes that are no multiples of its tile, and the corrected kernel on the same matrices.

C has one edge tile in each direction; A has more columns than the grid has tiles. Every defect that its file lists
shows, but for the order of its indices, which costs time only and is `profile`'s to report.
"""

from case import Case, matrices, product
from numba import cuda

from tilewright.multiply.kernels.tiled import tiled
from tilewright.multiply.kernels.tiled_published import tiled_published

FINDS = {
    # The k loop runs as often as C has tiles: columns 32 to 39 of A, and those rows of B, are never read.
    "def tiled_published(A: Any, B: Any, C: Any) -> None:": ("TW506",),
    # `and` for `or` in the guard: threads below C read past the end of A, threads beside it past the rows of B.
    "sA[tx, ty] = A[x, ty + i * TPB]": ("TW101",),
    "sB[tx, ty] = B[tx + i * TPB, y]": ("TW107",),
    # Threads below C and beside it have left, and nothing has filled their elements of the tiles.
    "cuda.syncthreads()": ("TW402",),
    "total += sA[tx, j] * sB[j, ty]": ("TW202", "TW601"),
    "C[x, y] = total": ("TW101", "TW107"),
}

OPERANDS = matrices(20, 40, 20)
CASES = (
    Case("s2_published", cuda.jit(tiled_published), (2, 2), (16, 16), OPERANDS, defective=True, finds=FINDS),
    Case("s2_corrected", cuda.jit(tiled()), (2, 2), (16, 16), OPERANDS, product),
)
