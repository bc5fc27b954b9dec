"""Matrices that the products of a warpgroup read, and who may write there again behind whose wait."""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "products.cuh"
#include "mbarriers.cuh"

// One thread starts to fill the tile, and counts the bytes at an mbarrier.
#define FILL                                                                                                           \
    do {                                                                                                               \
        ARRIVE_AND_EXPECT(&full, 2048);                                                                                \
        LOAD_BULK(tile, x, 2048, &full);                                                                               \
    } while (0)

enum Release { BEHIND, BEFORE, ONE_LATE };  // the wait for the products; or the wait leaves the youngest group

__device__ void awaited(Release release) {
    if (release == ONE_LATE) WAIT(1);
    else WAIT(0);
}

// One thread fills the tile again, without a barrier: its warp's wait covers the whole warpgroup's products.
template <Release release>
__global__ void refilled(float *out, const unsigned short *x, int filling) {
    SHARED_TILE;
    __shared__ uint64_t full;
    const int t = threadIdx.x;
    if (t == 0) INIT(&full, 1);
    __syncthreads();
    if (t == filling) FILL;
    float d[4] = {};
    for (int step = 0; step < 4; ++step) {
        AWAIT(&full, step & 1);
        FENCE;
        MULTIPLY(d, at(tile));
        COMMIT;
        if (release != BEFORE) awaited(release);
        if (t == filling && step < 3) FILL;
        if (release != BEHIND) WAIT(0);
    }
    out[t] = d[0];
}

// Warpgroups release the tile to a warp that fills it again, one thread for each; so many arrivals complete a phase.
template <Release release>
__global__ void released(float *out, const unsigned short *x, int thread, int arrivals) {
    SHARED_TILE;
    __shared__ uint64_t full, free;
    const int t = threadIdx.x, consumers = blockDim.x - 32;
    if (t == 0) {
        INIT(&full, 1);
        INIT(&free, arrivals);
    }
    __syncthreads();
    if (t >= consumers) {
        for (int step = 0; t == consumers && step < 4; ++step) {
            if (step > 0) AWAIT(&free, step - 1 & 1);
            FILL;
        }
        return;
    }
    float d[4] = {};
    for (int step = 0; step < 4; ++step) {
        AWAIT(&full, step & 1);
        FENCE;
        MULTIPLY(d, at(tile));
        COMMIT;
        if (release == BEFORE && t % 128 == thread && t / 128 < arrivals) ARRIVE(&free);
        awaited(release);
        if (release != BEFORE && t % 128 == thread && t / 128 < arrivals) ARRIVE(&free);
    }
    WAIT(0);
    out[t] = d[0];
}

// A warp of the warpgroup writes to the tile behind its wait.
__global__ void written(float *out, const unsigned short *x) {
    PRODUCT_UNDER_WAY(d);
    const int t = threadIdx.x;
    WAIT(0);
    if (t < 32) tile[t] = x[t];
    out[t] = d[0];
}

// A warp of no product writes there, which has met the last warp of the warpgroup behind its wait, or before it.
template <bool behind>
__global__ void beside(float *out, const unsigned short *x) {
    SHARED_TILE;
    const int t = threadIdx.x;
    for (int i = t; i < 64 * 16; i += 160) tile[i] = x[i];
    show_to_product();
    if (t >= 128) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        for (int i = t - 128; i < 64 * 16; i += 32) tile[i] = 0;
        return;
    }
    float d[4] = {};
    FENCE;
    MULTIPLY(d, at(tile));
    COMMIT;
    if (!behind && t / 32 == 3) asm volatile("bar.sync 1, 64;" ::: "memory");
    WAIT(0);
    if (behind && t / 32 == 3) asm volatile("bar.sync 1, 64;" ::: "memory");
    out[t] = d[0];
}
"""


def _case(entry: str, threads: int, numbers: tuple[int, ...], why: str, *codes: str) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        ones = np.ones(64 * 16, np.float16).view(np.uint16)
        return np.zeros(threads, np.float32), ones, *map(np.int32, numbers)

    name = "_".join(map(str, (entry.replace("<", "_").replace(">", ""), threads, *numbers)))
    program = cuda_cpp(__file__, SOURCE, entry, "-arch=sm_90a")
    return Case(name.lower(), program, 1, threads, arguments, why=why, codes=codes)


CASES = (
    _case("refilled<BEHIND>", 128, (0,), "The first warp's wait covers all four warps' reads."),
    _case("refilled<BEHIND>", 128, (96,), "So does the last warp's."),
    _case("refilled<BEFORE>", 128, (0,), "The product may still read; others may miss a phase.", "TW306", "TW408"),
    _case("refilled<ONE_LATE>", 128, (70,), "The group awaited is not the one that reads.", "TW306"),
    _case("released<BEHIND>", 160, (0, 1), "The warp that arrives has waited for the warpgroup's product."),
    _case("released<BEHIND>", 160, (77, 1), "So has the third warp."),
    _case("released<BEHIND>", 288, (32, 2), "Each warpgroup releases its own product."),
    _case("released<BEHIND>", 288, (0, 1), "The second warpgroup has not released its product.", "TW306"),
    _case("released<BEFORE>", 160, (0, 1), "The arrival comes before the wait.", "TW306"),
    _case("released<BEFORE>", 288, (127, 2), "Both arrivals come before the waits.", "TW306"),
    _case("released<ONE_LATE>", 160, (0, 1), "The wait leaves the youngest group.", "TW306"),
    _case("written", 128, (), "The warp that writes has waited for the warpgroup's product."),
    _case("beside<true>", 160, (), "A barrier orders the writes behind one warp's wait."),
    _case("beside<false>", 160, (), "The barrier comes before the wait.", "TW307"),
)
