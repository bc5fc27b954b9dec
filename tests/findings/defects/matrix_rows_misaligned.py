"""Rows of a tile are padded against bank conflicts by 8 bytes, where `ldmatrix` wants each at a multiple of 16."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_fp16.h>

template <int pitch>
__device__ void transposed(const __half *x, unsigned *out) {
    __shared__ __align__(16) __half tile[8 * pitch];
    const int lane = threadIdx.x;
    for (int i = lane; i < 64; i += 32) tile[i / 8 * pitch + i % 8] = x[i];
    __syncwarp();
    const unsigned row = (unsigned)__cvta_generic_to_shared(&tile[lane % 8 * pitch]);
    unsigned two;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(two) : "r"(row));  // finds: TW102
    out[lane] = two;
}

extern "C" __global__ void by_eight_bytes(const __half *x, unsigned *out) { transposed<12>(x, out); }
extern "C" __global__ void by_sixteen_bytes(const __half *x, unsigned *out) { transposed<16>(x, out); }
"""


def arguments(rng):
    return rng.standard_normal((8, 8)).astype(np.float16), np.zeros(32, np.uint32)


def reference(x, out):
    return {1: np.ascontiguousarray(x.T).view(np.uint32).ravel()}


CASES = (
    Case("rows_by_eight_bytes", cuda_cpp(__file__, SOURCE, "by_eight_bytes"), 1, 32, arguments, defective=True),
    Case("rows_by_sixteen_bytes", cuda_cpp(__file__, SOURCE, "by_sixteen_bytes"), 1, 32, arguments, reference),
)
