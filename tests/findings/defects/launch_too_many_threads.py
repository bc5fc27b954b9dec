"""A block of 2,048 threads."""

import numpy as np
from case import Case, zeros
from numba import cuda


@cuda.jit
def count_up(out):  # finds: TW502
    i = cuda.grid(1)
    if i < out.size:
        out[i] = i


def reference(out):
    return {0: np.arange(2048)}


CASES = (
    Case("block_of_2048", count_up, 1, 2048, zeros(2048), defective=True),
    Case("block_of_1024", count_up, 2, 1024, zeros(2048), reference),
)
