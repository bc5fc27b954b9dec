"""Lanes that read a word and arrive for themselves alone: two readers and one that writes behind both."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "mbarriers.cuh"

__global__ void lanes_read_then_arrive(int *out) {
    __shared__ int word;
    __shared__ uint64_t bar[2];
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        word = 5;
        INIT(&bar[0], 1);
        INIT(&bar[1], 1);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 7 * warp) {
        if (warp < 2) {
            out[warp] = word;
            ARRIVE(&bar[warp]);
        } else {
            AWAIT(&bar[1], 0);
            AWAIT(&bar[0], 0);
            word = 7;
            out[2] = word;
        }
    }
}
"""


CASES = (
    Case(
        "lanes_read_then_arrive",
        cuda_cpp(__file__, SOURCE, "lanes_read_then_arrive"),
        1,
        96,
        lambda rng: (np.zeros(3, np.int32),),
        lambda out: {0: [5, 5, 7]},
    ),
)
