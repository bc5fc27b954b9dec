"""A ring of two stages that two warps read: one of them tells too early that it has read its stage."""

from case import Case, cuda_cpp, given

SOURCE = r"""
#include "mbarriers.cuh"

template <bool early>
__global__ void ring(const int *x, int *out, int n) {
    __shared__ int tile[2][32];
    __shared__ uint64_t full[2], empty[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int sum = 0;
    if (threadIdx.x < 2) {
        INIT(&full[threadIdx.x], 1);
        INIT(&empty[threadIdx.x], 2);
    }
    __syncthreads();
    for (int step = 0; step < n / 32; ++step) {
        const int stage = step % 2, round = step / 2 % 2;
        if (warp == 0) {
            if (step > 1) AWAIT(&empty[stage], round ^ 1);
            tile[stage][lane] = x[32 * step + lane];  // finds: TW301
            __syncwarp();
            if (lane == 0) ARRIVE(&full[stage]);
            continue;
        }
        AWAIT(&full[stage], round);
        if (early && warp == 2 && lane == 0) ARRIVE(&empty[stage]);
        sum += tile[stage][31 - lane];
        __syncwarp();
        if (!(early && warp == 2) && lane == 0) ARRIVE(&empty[stage]);
    }
    if (warp) out[threadIdx.x - 32] = sum;
}
"""


def reference(x, out, n):
    sums = x.reshape(-1, 32)[:, ::-1].sum(axis=0)
    return {1: [*sums, *sums]}


CASES = (
    Case("told_early", cuda_cpp(__file__, SOURCE, "ring<true>"), 1, 96, given(192, 64), defective=True),
    Case("told_behind", cuda_cpp(__file__, SOURCE, "ring<false>"), 1, 96, given(192, 64), reference, unwritten=(1,)),
)
