"""S1 as published: the row follows threadIdx.x, so lanes of a warp touch 16 rows at once; and it sums in float64."""

from case import Case, matrices, product
from numba import cuda

from tilewright.multiply.kernels.numba_naive import naive, naive_published

FINDS = {
    "total += A[i, k] * B[k, j]": ("TW601", "TW702"),
    "C[i, j] = total": ("TW702",),
}

OPERANDS = matrices(30, 24, 40)
CASES = (
    Case("s1_published", cuda.jit(naive_published), (2, 3), (16, 16), OPERANDS, defective=True, finds=FINDS),
    Case("s1_corrected", cuda.jit(naive()), (2, 8), (32, 4), OPERANDS, product),
)
