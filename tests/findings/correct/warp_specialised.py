"""Warp specialisation: one warp fills two slots in turn, another empties them, by bar.arrive and bar.sync."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__device__ void wait_at(int barrier) { asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory"); }
__device__ void arrive_at(int barrier) { asm volatile("bar.arrive %0, 64;" ::"r"(barrier) : "memory"); }

__global__ void warp_specialised(const int *x, int *out, int steps) {
    __shared__ int slots[2][32];
    const int lane = threadIdx.x % 32;
    constexpr int FULL = 1, EMPTY = 3;
    if (threadIdx.x < 32) {
        for (int step = 0; step < steps; ++step) {
            if (step >= 2) {
                wait_at(EMPTY + step % 2);
            }
            slots[step % 2][lane] = x[step * 32 + lane];
            arrive_at(FULL + step % 2);
        }
    } else {
        for (int step = 0; step < steps; ++step) {
            wait_at(FULL + step % 2);
            out[step * 32 + lane] = 2 * slots[step % 2][31 - lane];
            if (step + 2 < steps) {
                arrive_at(EMPTY + step % 2);
            }
        }
    }
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 224).astype(np.int32), np.zeros(224, np.int32), 7


def reference(x, out, steps):
    return {1: 2 * x.reshape(7, 32)[:, ::-1].ravel()}


KERNEL = cuda_cpp(__file__, SOURCE, "warp_specialised")
CASES = (Case("warp_specialised", KERNEL, 1, 64, arguments, reference, unwritten=(1,)),)
