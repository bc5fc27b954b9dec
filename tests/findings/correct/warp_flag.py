"""Warps of a block hand values on by volatile flags in shared memory and fences, without a barrier between them."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void warp_flag(const int *x, int *out) {
    __shared__ int chain[32];
    __shared__ volatile int ready[4];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x < 4) {
        ready[threadIdx.x] = 0;
    }
    __syncthreads();
    int value = x[threadIdx.x];
    if (warp > 0) {
        if (lane == 0) {
            while (ready[warp - 1] == 0) {
            }
            __threadfence_block();
        }
        __syncwarp();
        value += chain[31 - lane];
        __syncwarp();
    }
    chain[lane] = value;
    __syncwarp();
    if (lane == 0) {
        __threadfence_block();
        ready[warp] = 1;
    }
    out[threadIdx.x] = value;
}
"""


def arguments(rng):
    return rng.integers(-99, 99, 128).astype(np.int32), np.zeros(128, np.int32)


def reference(x, out):
    rows = list(x.reshape(4, 32))
    for warp in range(1, 4):
        rows[warp] = rows[warp] + rows[warp - 1][::-1]
    return {1: np.concatenate(rows)}


KERNEL = cuda_cpp(__file__, SOURCE, "warp_flag")
CASES = (Case("warp_flag", KERNEL, 1, 128, arguments, reference, unwritten=(1,)),)
