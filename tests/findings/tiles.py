"""A matrix product through shared tiles, and the mistakes that people make in it, each a part that can be left out."""

from __future__ import annotations

from typing import Any

from numba import cuda, float32


def tiles(
    edge: int,
    *,
    guarded: bool = True,
    filled: bool = True,
    after_load: bool = True,
    after_compute: bool = True,
    bounds_of_c: bool = False,
    steps_from_grid: bool = False,
) -> Any:
    """The kernel C = A B for tiles of `edge` by `edge`; right for all shapes unless an option says otherwise.

    Parameters
    ----------
    edge : int
        Launch with blocks of (edge, edge).
    guarded : bool
        Whether loads and the store keep to the arrays.
    filled : bool
        Whether the tiles' elements are 0 where nothing is loaded.
    after_load, after_compute : bool
        Whether there is a barrier there.
    bounds_of_c : bool
        Whether the guards of A and B take C's shape for theirs.
    steps_from_grid : bool
        Whether there are as many steps as tiles in a row of the grid, instead of in a row of A.
    """

    @cuda.jit
    def by_tiles(a, b, c):  # type: ignore[no-untyped-def]
        tile_a = cuda.shared.array((edge, edge), float32)
        tile_b = cuda.shared.array((edge, edge), float32)
        column, row = cuda.grid(2)
        tx = cuda.threadIdx.x
        ty = cuda.threadIdx.y
        total = float32(0)
        of_a, of_b = (c, c) if bounds_of_c else (a, b)
        for start in range(0, cuda.gridDim.x * edge if steps_from_grid else a.shape[1], edge):
            if filled:
                tile_a[ty, tx] = 0
                tile_b[ty, tx] = 0
            if not guarded or (row < of_a.shape[0] and start + tx < of_a.shape[1]):
                tile_a[ty, tx] = a[row, start + tx]
            if not guarded or (start + ty < of_b.shape[0] and column < of_b.shape[1]):
                tile_b[ty, tx] = b[start + ty, column]
            if after_load:
                cuda.syncthreads()
            for k in range(edge):
                total += tile_a[ty, k] * tile_b[k, tx]
            if after_compute:
                cuda.syncthreads()
        if not guarded or (row < c.shape[0] and column < c.shape[1]):
            c[row, column] = total

    return by_tiles


#: The lines of the kernel that findings are about.
KERNEL = "def by_tiles(a, b, c):  # type: ignore[no-untyped-def]"
LOAD_A = "tile_a[ty, tx] = a[row, start + tx]"
LOAD_B = "tile_b[ty, tx] = b[start + ty, column]"
COMPUTE = "total += tile_a[ty, k] * tile_b[k, tx]"
