"""Mbarriers in kernels with fences and flags: what one warp has acquired or fenced, an arrival passes on to another."""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "mbarriers.cuh"

#define ARRIVE_RELAXED(bar) \
    asm volatile("mbarrier.arrive.relaxed.cta.shared.b64 _, [%0];" ::IN_SHARED(bar) : "memory")
#define AWAIT_RELAXED(bar, parity)                                                                                     \
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.relaxed.cta.shared.b64 p, [%0], %1;"                 \
                 " @!p bra again; }" ::IN_SHARED(bar), "r"(parity) : "memory")

// Block 0 sets a flag; warp 0 of block 1 awaits it and arrives, and warp 1 awaits that, or reads at once.
__global__ void handed_on(int *out, int waits) {
    __shared__ uint64_t bar;
    volatile int *flag = out + 96;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (blockIdx.x == 0) {
        if (warp == 0) {
            out[lane] = 3;
            __threadfence();
            __syncwarp();
            if (lane == 0) *flag = 1;
        }
        return;
    }
    if (threadIdx.x == 0) INIT(&bar, 32);
    __syncthreads();
    if (warp == 0) {
        while (*flag == 0) { }
        __threadfence();
        ARRIVE(&bar);
    } else {
        if (waits) AWAIT(&bar, 0);
        out[128 + lane] = out[lane];
    }
}

// Warp 1 writes and arrives; warp 0 awaits that, or not, and sets the flag that block 1 awaits.
__global__ void gathered(int *out, int waits) {
    __shared__ uint64_t bar;
    volatile int *flag = out + 96;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) INIT(&bar, 32);
        __syncthreads();
        if (warp == 1) {
            out[lane] = 3;
            ARRIVE(&bar);
        } else {
            if (waits) AWAIT(&bar, 0);
            __threadfence();
            __syncwarp();
            if (lane == 0) *flag = 1;
        }
    } else if (warp == 0) {
        while (*flag == 0) { }
        __threadfence();
        out[128 + lane] = out[lane];
    }
}

// Relaxed arrivals and waits with fences around them, or without the first or the second one.
__global__ void fenced(int *out, int fences) {
    __shared__ uint64_t bar;
    __shared__ int tile[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) INIT(&bar, 32);
    __syncthreads();
    if (warp == 0) {
        tile[lane] = lane;
        if (fences & 1) __threadfence_block();
        ARRIVE_RELAXED(&bar);
    } else {
        AWAIT_RELAXED(&bar, 0);
        if (fences & 2) __threadfence_block();
        out[lane] = tile[lane ^ 1];
    }
}

// The reader of a stage arrives before it reads, or behind; the kernel has a fence too.
__global__ void released(int *out, int early) {
    __shared__ uint64_t full, empty;
    __shared__ int tile[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) INIT(&full, 32);
    if (threadIdx.x == 0) INIT(&empty, 32);
    __syncthreads();
    __threadfence();
    for (int step = 0; step < 3; ++step) {
        if (warp == 0) {
            if (step) AWAIT(&empty, (step - 1) & 1);
            tile[lane] = step;
            ARRIVE(&full);
        } else {
            AWAIT(&full, step & 1);
            if (early) ARRIVE(&empty);
            out[32 * step + lane] = tile[lane];
            if (!early) ARRIVE(&empty);
        }
    }
}

// One lane arrives for its warp, whose lanes have met before, or not.
__global__ void for_all(int *out, int meets) {
    __shared__ uint64_t bar;
    __shared__ int tile[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) INIT(&bar, 1);
    __syncthreads();
    __threadfence();
    if (warp == 0) {
        tile[lane] = lane;
        if (meets) __syncwarp();
        if (lane == 0) ARRIVE(&bar);
    } else {
        AWAIT(&bar, 0);
        out[lane] = tile[lane];
    }
}
"""


def _case(entry: str, value: int, why: str, *codes: str, blocks: int = 1) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return np.zeros(512, np.int32), np.int32(value)

    return Case(f"{entry}_{value}", cuda_cpp(__file__, SOURCE, entry), blocks, 64, arguments, why=why, codes=codes)


CASES = (
    _case("handed_on", 1, "Warp 1 awaits warp 0, which has acquired the flag.", blocks=2),
    _case("handed_on", 0, "Warp 1 does not wait.", "TW303", blocks=2),
    _case("gathered", 1, "Warp 0 awaits warp 1 and releases what that did.", blocks=2),
    _case("gathered", 0, "Warp 0 does not wait for warp 1.", "TW303", blocks=2),
    _case("fenced", 3, "Fences around relaxed operations are a release and an acquire pattern."),
    _case("fenced", 2, "Nothing releases the write.", "TW301"),
    _case("fenced", 1, "Nothing acquires the write.", "TW301"),
    _case("fenced", 0, "Relaxed operations order nothing by themselves.", "TW301"),
    _case("released", 0, "The reader has read when it arrives."),
    _case("released", 1, "The reader reads behind its arrival.", "TW301"),
    _case("for_all", 1, "The lanes have met when one arrives for all."),
    _case("for_all", 0, "An arrival does not release what other lanes did.", "TW411"),
)
