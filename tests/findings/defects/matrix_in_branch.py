"""A product on tensor cores in a branch that only the lanes with rows inside the matrix take."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_fp16.h>

// C (16 x 8) = A (16 x 8) B (8 x 8): of each row of A and of C four lanes hold a part.
__device__ void product(float (&c)[4], unsigned (&a)[2], unsigned b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "  // finds: TW414
                 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b));
}

template <bool guards_all>
__global__ void rows(const unsigned *x, const unsigned *y, float *out, int m) {
    const int lane = threadIdx.x, row = lane / 4, part = lane % 4;
    unsigned a[2] = {0, 0};
    float c[4] = {0, 0, 0, 0};
    if (row < m) a[0] = x[row * 4 + part];
    if (!guards_all || row < m) product(c, a, y[lane]);
    if (row < m) {
        out[row * 8 + 2 * part] = c[0];
        out[row * 8 + 2 * part + 1] = c[1];
    }
}
"""
M = 5


def arguments(rng):
    a, b = (rng.integers(-4, 4, (rows, 8)).astype(np.float16) for rows in (M, 8))
    return a.view(np.uint32), b.view(np.uint32), np.zeros((M, 8), np.float32), M


def reference(a, b, out, m):
    left, right = (each.view(np.float16).astype(np.float32) for each in (a, b))
    return {2: left @ right.T}


CASES = (
    Case("matrix_in_branch", cuda_cpp(__file__, SOURCE, "rows<true>"), 1, 32, arguments, defective=True),
    Case("matrix_by_all", cuda_cpp(__file__, SOURCE, "rows<false>"), 1, 32, arguments, reference),
)
