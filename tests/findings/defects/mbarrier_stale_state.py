"""The state of a phase is asked for when the next two are over too."""

from case import Case, backwards, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

__device__ uint64_t arrive(uint64_t *bar) {
    uint64_t state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : IN_SHARED(bar) : "memory");
    return state;
}

template <int later>
__global__ void asked(const int *x, int *out) {
    TILE_AND_MBARRIER(64);
    tile[t] = x[t];
    const uint64_t first = arrive(&bar);
    __syncthreads();
    for (int i = 0; i < later; i++) {
        arrive(&bar);
        __syncthreads();
    }
    int done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"  // finds: TW407
                 : "=r"(done) : IN_SHARED(&bar), "l"(first) : "memory");
    out[t] = tile[63 - t] + (done > 1);
}
"""

CASES = (
    Case("asked_too_late", cuda_cpp(__file__, SOURCE, "asked<2>"), 1, 64, numbers(64), defective=True),
    Case("asked_in_time", cuda_cpp(__file__, SOURCE, "asked<0>"), 1, 64, numbers(64), backwards),
)
