"""A tensor-core product of three stages loads its fragments of the next stage before the wait for it."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

// C (16 x 8) = A (16 x 16 steps) B (16 steps x 8), one warp; rows of 16 or 8 halves are 16-byte pieces.
template <bool waits>
__global__ void product(const __half *a, const __half *b, float *c, int steps) {
    __shared__ __align__(128) __half of_a[3][16][24], of_b[3][16][8];
    const int lane = threadIdx.x, row = lane / 2, half = lane % 2 * 8;
    auto begin = [&](int s) {
        __pipeline_memcpy_async(&of_a[s % 3][row][half], a + row * 16 * steps + 16 * s + half, 16);
        if (lane < 16) __pipeline_memcpy_async(&of_b[s % 3][lane][0], b + (16 * s + lane) * 8, 16);
    };
    for (int s = 0; s < 2; ++s) {
        begin(s);
        __pipeline_commit();
    }
    float d[4] = {0, 0, 0, 0};
    for (int s = 0; s < steps; ++s) {
        unsigned x[4], y[2];
        if (waits) {
            __pipeline_wait_prior(1);
            __syncwarp();
        }
        const unsigned at_a = (unsigned)__cvta_generic_to_shared(&of_a[s % 3][lane % 16][lane / 16 * 8]);
        const unsigned at_b = (unsigned)__cvta_generic_to_shared(&of_b[s % 3][lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"  // finds: TW306
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at_a));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"  // finds: TW306
                     : "=r"(y[0]), "=r"(y[1]) : "r"(at_b));
        if (!waits) {
            __pipeline_wait_prior(1);
            __syncwarp();
        }
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
        if (s + 2 < steps) begin(s + 2);
        __pipeline_commit();
    }
    for (int i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}
"""
STEPS = 5


def arguments(rng):
    a, b = (rng.integers(-4, 4, shape).astype(np.float16) for shape in ((16, 16 * STEPS), (16 * STEPS, 8)))
    return a, b, np.zeros((16, 8), np.float32), STEPS


def reference(a, b, c, steps):
    return {2: a.astype(np.float32) @ b.astype(np.float32)}


CASES = (
    Case("matrix_loads_first", cuda_cpp(__file__, SOURCE, "product<false>"), 1, 32, arguments, defective=True),
    Case("matrix_waits_first", cuda_cpp(__file__, SOURCE, "product<true>"), 1, 32, arguments, reference),
)
