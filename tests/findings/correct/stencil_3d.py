"""Seven-point stencil on a 3-D grid: planes of x and y in shared memory, marching along z."""

import numpy as np
from case import Case
from numba import cuda, int32

TX = 8
TY = 4
HALO_X = TX + 2
HALO_Y = TY + 2


@cuda.jit
def stencil_3d(v, out):
    plane = cuda.shared.array((HALO_Y, HALO_X), int32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x + 1
    ty = cuda.threadIdx.y + 1
    depth, rows, columns = v.shape
    inside = x < columns - 2 and y < rows - 2
    for z in range(1, depth - 1):
        cuda.syncthreads()
        if inside:
            plane[ty, tx] = v[z, y + 1, x + 1]
            if tx == 1:
                plane[ty, 0] = v[z, y + 1, x]
            if ty == 1:
                plane[0, tx] = v[z, y, x + 1]
            if tx == TX or x == columns - 3:
                plane[ty, tx + 1] = v[z, y + 1, x + 2]
            if ty == TY or y == rows - 3:
                plane[ty + 1, tx] = v[z, y + 2, x + 1]
        cuda.syncthreads()
        if inside:
            around = plane[ty, tx - 1] + plane[ty, tx + 1] + plane[ty - 1, tx] + plane[ty + 1, tx]
            out[z, y + 1, x + 1] = around + v[z - 1, y + 1, x + 1] + v[z + 1, y + 1, x + 1] - 6 * plane[ty, tx]


def arguments(rng):
    return rng.integers(-99, 99, (5, 11, 21)).astype(np.int32), np.zeros((5, 11, 21), np.int32)


def reference(v, out):
    mid = v[1:-1, 1:-1, 1:-1]
    around = v[1:-1, 1:-1, :-2] + v[1:-1, 1:-1, 2:] + v[1:-1, :-2, 1:-1] + v[1:-1, 2:, 1:-1]
    wanted = out.copy()
    wanted[1:-1, 1:-1, 1:-1] = around + v[:-2, 1:-1, 1:-1] + v[2:, 1:-1, 1:-1] - 6 * mid
    return {1: wanted}


CASES = (Case("stencil_3d", stencil_3d, (3, 3), (TX, TY), arguments, reference),)
