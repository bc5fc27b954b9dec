"""Half a step of a red-black relaxation, in place: red cells are written from black neighbours, in every block."""

import numpy as np
from case import Case
from numba import cuda


@cuda.jit
def red_black(grid):
    column, row = cuda.grid(2)
    row += 1
    column += 1
    if row < grid.shape[0] - 1 and column < grid.shape[1] - 1 and (row + column) % 2 == 0:
        around = grid[row - 1, column] + grid[row + 1, column] + grid[row, column - 1] + grid[row, column + 1]
        grid[row, column] = around * 0.25


def arguments(rng):
    return (rng.integers(-99, 99, (22, 35)).astype(np.float64),)


def reference(grid):
    after = grid.copy()
    around = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
    red = np.add.outer(np.arange(20), np.arange(33)) % 2 == 0
    after[1:-1, 1:-1][red] = around[red] / 4
    return {0: after}


CASES = (Case("red_black", red_black, (3, 2), (16, 16), arguments, reference),)
