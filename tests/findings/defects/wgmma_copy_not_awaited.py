"""A product reads what an asynchronous copy may still be writing."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "products.cuh"

__device__ float product(const unsigned short *tile) {
    float d[4] = {};
    FENCE;
    asm volatile(PRODUCT : SUMS(d) : "l"(at(tile)) : "memory");  // finds: TW306
    COMMIT;
    WAIT(0);
    return d[0];
}

__global__ void one_in_flight(const unsigned short *x, float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 ::"r"((unsigned)__cvta_generic_to_shared(tile + 8 * threadIdx.x)), "l"(x + 8 * threadIdx.x)
                 : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    FENCE_PROXY;
    __syncthreads();
    out[threadIdx.x] = product(tile);
}

__global__ void none_in_flight(const unsigned short *x, float *out) {
    __shared__ alignas(128) unsigned short tile[64 * 16];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 ::"r"((unsigned)__cvta_generic_to_shared(tile + 8 * threadIdx.x)), "l"(x + 8 * threadIdx.x)
                 : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    FENCE_PROXY;
    __syncthreads();
    out[threadIdx.x] = product(tile);
}
"""


def arguments(rng):
    return np.ones(64 * 16, np.float16).view(np.uint16), np.zeros(128, np.float32)


def reference(x, out):
    return {1: np.full(128, 16.0, np.float32)}


CASES = (
    Case("one_in_flight", cuda_cpp(__file__, SOURCE, "one_in_flight"), 1, 128, arguments, defective=True),
    Case("none_in_flight", cuda_cpp(__file__, SOURCE, "none_in_flight"), 1, 128, arguments, reference),
)
