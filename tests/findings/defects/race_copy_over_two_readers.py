"""An asynchronous copy into a tile that two warps read, behind the arrival of one of them alone."""

from case import Case, cuda_cpp, given

SOURCE = r"""
#include "copies.cuh"
#include "mbarriers.cuh"

template <bool both>
__global__ void copied_over(const int *x, int *out, int n) {
    __shared__ alignas(128) int tile[32];
    __shared__ uint64_t full, empty[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        INIT(&full, 1);
        INIT(&empty[0], 1);
        INIT(&empty[1], 1);
    }
    if (warp == 0) tile[lane] = x[lane];
    __syncthreads();
    if (warp) {
        out[threadIdx.x - 32] = tile[31 - lane];  // finds: TW306
        __syncwarp();
        if (lane == 0) ARRIVE(&empty[warp - 1]);
    } else {
        AWAIT(&empty[0], 0);
        if (both) AWAIT(&empty[1], 0);
        __pipeline_memcpy_async(&tile[lane], &x[32 + lane], 4);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncwarp();
        if (lane == 0) ARRIVE(&full);
        AWAIT(&full, 0);
        out[64 + lane] = tile[lane];
    }
}
"""


def reference(x, out, n):
    return {1: [*x[31::-1], *x[31::-1], *x[32:]]}


CASES = (
    Case("copied_behind_one", cuda_cpp(__file__, SOURCE, "copied_over<false>"), 1, 96, given(64, 96), defective=True),
    Case("copied_behind_both", cuda_cpp(__file__, SOURCE, "copied_over<true>"), 1, 96, given(64, 96), reference),
)
