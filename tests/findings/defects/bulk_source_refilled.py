"""A stage of a pipeline is filled again by a bulk copy, while the bulk copy that stores it may still be reading it."""

from case import Case, copied, cuda_cpp, numbers

SOURCE = r"""
#include "mbarriers.cuh"

template <bool read>
__global__ void refills_stage(const int *x, int *out) {
    __shared__ alignas(16) int stage[64];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        INIT(&bar, 1);
        for (int i = 0; i < 2; i++) {
            ARRIVE_AND_EXPECT(&bar, 256);
            LOAD_BULK(stage, x + 64 * i, 256, &bar);  // finds: TW306
            AWAIT(&bar, i);
            STORE_BULK(out + 64 * i, stage, 256);
            COMMIT_BULK;
            if (read) WAIT_BULK(.read);
        }
        WAIT_BULK();
    }
}
"""


CASES = (
    Case("refilled_early", cuda_cpp(__file__, SOURCE, "refills_stage<false>"), 1, 32, numbers(128), defective=True),
    Case("refilled_behind", cuda_cpp(__file__, SOURCE, "refills_stage<true>"), 1, 32, numbers(128), copied),
)
