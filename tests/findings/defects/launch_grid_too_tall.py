"""A grid of 65,536 blocks in y: the long axis is y instead of x."""

import numpy as np
from case import Case, zeros
from numba import cuda


@cuda.jit
def one_a_block(out):  # finds: TW504
    row = cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x
    if cuda.threadIdx.x == 0 and row < out.size:
        out[row] = row


def reference(out):
    return {0: np.arange(65536)}


CASES = (
    Case("grid_too_tall", one_a_block, (1, 65536), 32, zeros(65536), defective=True),
    Case("grid_wide", one_a_block, (65536, 1), 32, zeros(65536), reference),
)
