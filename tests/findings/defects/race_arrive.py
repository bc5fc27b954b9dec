"""`bar.arrive` where the slot is used again: the producer does not wait until the consumer has read it."""

import numpy as np
from case import Case, cuda_cpp, doubled

SOURCE = r"""
__device__ void wait_at(int barrier) { asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory"); }
__device__ void arrive_at(int barrier) { asm volatile("bar.arrive %0, 64;" ::"r"(barrier) : "memory"); }

__global__ void runs_ahead(const int *x, int *out) {
    __shared__ int slot[32];
    const int lane = threadIdx.x % 32;
    for (int step = 0; step < 4; ++step) {
        if (threadIdx.x < 32) {
            slot[lane] = x[step * 32 + lane];  // finds: TW301
            arrive_at(1 + step);
        } else {
            wait_at(1 + step);
            out[step * 32 + lane] = slot[lane] * 2;
        }
    }
}

__global__ void waits(const int *x, int *out) {
    __shared__ int slot[32];
    const int lane = threadIdx.x % 32;
    for (int step = 0; step < 4; ++step) {
        if (threadIdx.x < 32) {
            slot[lane] = x[step * 32 + lane];
            arrive_at(1 + step);
            wait_at(5 + step);
        } else {
            wait_at(1 + step);
            out[step * 32 + lane] = slot[lane] * 2;
            arrive_at(5 + step);
        }
    }
}
"""


def arguments(rng):
    return rng.permutation(128).astype(np.int32), np.zeros(128, np.int32)


CASES = (
    Case("producer_runs_ahead", cuda_cpp(__file__, SOURCE, "runs_ahead"), 1, 64, arguments, defective=True),
    Case("producer_waits", cuda_cpp(__file__, SOURCE, "waits"), 1, 64, arguments, doubled),
)
