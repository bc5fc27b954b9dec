"""Barriers of some of a block's warps, in kernels that also have fences and flags.

A barrier orders what its own warps did in this round. Warps that meet at another one, or in another round, learn
nothing of it, whatever else the kernel orders by fences.
"""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#define MEET(barrier) asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory")
#define COME(barrier) asm volatile("bar.arrive %0, 64;" ::"r"(barrier) : "memory")

// Each reading warp meets the writing one at a named barrier of its own.
__global__ void readers(int *out, int missing) {
    __shared__ int tile[32];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, count = blockDim.x / 32 - 1;
    if (warp == 0) tile[lane] = 5;
    __syncthreads();
    __threadfence();
    if (warp > 0) {
        out[t] = tile[lane];
        COME(warp);
    } else {
        for (int i = 1; i <= count; ++i) if (i != missing) MEET(i);
        tile[lane] = 7;
    }
}

// Warps 0 and 1 exchange words, and warps 2 and 3; `other` reads what the other pair wrote.
__global__ void pairs(int *out, int other) {
    __shared__ int tile[128];
    const int t = threadIdx.x, pair = t / 64;
    tile[t] = t;
    __threadfence_block();
    MEET(1 + pair);
    out[t] = tile[(t ^ 32) ^ (other ? 64 : 0)];
}

// A ring of one stage: the consumer says that it is empty when it has read it, or `early`.
__global__ void ring(int *out, int early) {
    __shared__ int stage[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __threadfence();
    for (int step = 0; step < 4; ++step) {
        if (warp == 0) {
            if (step > 0) MEET(2);
            stage[lane] = step;
            COME(1);
        } else {
            MEET(1);
            if (early && step < 3) COME(2);
            out[32 * step + lane] = stage[lane];
            if (!early && step < 3) COME(2);
        }
    }
}

// Block 0 sets a flag; warp 0 of block 1 awaits it, and meets warp 1 at a barrier. Warp `reader` reads.
__global__ void behind(int *out, int reader) {
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
    if (warp == 0) {
        while (*flag == 0) { }
        __threadfence();
    }
    MEET(1 + warp / 2);
    if (warp == reader) out[128 + lane] = out[lane];
}

// Warp 1 writes and ends, before warp 0 goes on behind a barrier of the block, or `at once`; block 1 awaits warp 0.
__global__ void ended(int *out, int waits) {
    volatile int *flag = out + 96;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (blockIdx.x == 0) {
        if (warp == 1) {
            out[lane] = 3;
            return;
        }
        if (waits) __syncthreads();
        __threadfence();
        if (lane == 0) *flag = 1;
    } else if (warp == 0) {
        while (*flag == 0) { }
        __threadfence();
        out[128 + lane] = out[lane];
    }
}
"""


def _case(entry: str, value: int, why: str, *codes: str, blocks: int = 1, warps: int = 2) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return np.zeros(512, np.int32), np.int32(value)

    return Case(
        f"{entry}_{value}", cuda_cpp(__file__, SOURCE, entry), blocks, 32 * warps, arguments, why=why, codes=codes
    )


CASES = (
    _case("readers", 0, "The write comes behind barriers with all readers.", warps=3),
    _case("readers", 1, "Nothing orders the read of warp 1 before the write.", "TW301", warps=3),
    _case("readers", 2, "Nothing orders the read of warp 2 before the write.", "TW301", warps=3),
    _case("pairs", 0, "Each pair has a barrier of its own.", warps=4),
    _case("pairs", 1, "Warps of two pairs meet at no barrier.", "TW301", warps=4),
    _case("ring", 0, "The producer waits until each stage was read."),
    _case("ring", 1, "The consumer reads the stage behind its arrival.", "TW301"),
    _case("behind", 1, "Warp 1 meets warp 0, which has awaited the flag.", blocks=2, warps=4),
    _case("behind", 2, "Warp 2 meets warp 3 alone.", "TW303", blocks=2, warps=4),
    _case("ended", 1, "A barrier orders what warp 1 did before it ended, though it should wait.", "TW402", blocks=2),
    _case("ended", 0, "Nothing orders what warp 1 wrote before the flag.", "TW303", blocks=2),
)
