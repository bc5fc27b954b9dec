"""S1 as published: the row follows threadIdx.x, so lanes of a warp touch 16 rows at once; and it sums in float64."""

import numpy as np
from case import Case
from numba import cuda

from tilewright.gpu.kernels.numba_naive import naive, naive_published


def arguments(rng):
    return (
        rng.integers(-9, 9, (30, 24)).astype(np.float32),
        rng.integers(-9, 9, (24, 40)).astype(np.float32),
        np.zeros((30, 40), np.float32),
    )


def reference(a, b, c):
    return {2: a @ b}


FINDS = {
    "total += A[i, k] * B[k, j]": ("TW601", "TW702"),
    "C[i, j] = total": ("TW702",),
}

CASES = (
    Case("s1_published", cuda.jit(naive_published), (2, 3), (16, 16), arguments, defective=True, finds=FINDS),
    Case("s1_corrected", cuda.jit(naive()), (2, 8), (32, 4), arguments, reference),
)
