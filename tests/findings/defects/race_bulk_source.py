"""The source of a bulk copy is overwritten while it may still be read."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cstdint>

__device__ unsigned at(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }

__device__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__global__ void overwrites_source(const int *x, int *out) {
    __shared__ alignas(16) int tile[64];
    const int t = threadIdx.x;
    tile[63 - t] = x[t];
    fence();
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;"
                     ::"l"(out), "r"(at(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        tile[0] = 7;  // finds: TW306
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

__global__ void waits_for_reads(const int *x, int *out) {
    __shared__ alignas(16) int tile[64];
    const int t = threadIdx.x;
    tile[63 - t] = x[t];
    fence();
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;"
                     ::"l"(out), "r"(at(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        tile[0] = 7;
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""


def arguments(rng):
    return rng.integers(1, 99, 64).astype(np.int32), np.zeros(64, np.int32)


def reference(x, out):
    return {1: x[::-1]}


CASES = (
    Case("overwrites_source", cuda_cpp(__file__, SOURCE, "overwrites_source"), 1, 64, arguments, defective=True),
    Case("waits_for_reads", cuda_cpp(__file__, SOURCE, "waits_for_reads"), 1, 64, arguments, reference),
)
