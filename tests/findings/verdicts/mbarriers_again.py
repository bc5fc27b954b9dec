"""mbarriers that are initialised again.

`mbarrier.init` on a place that holds a valid mbarrier is undefined, whatever its state (PTX ISA, 9.7.13.15.9);
`mbarrier.inval` ends the mbarrier, and then the place may be used again.
"""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "mbarriers.cuh"
#define END_OF(bar) asm volatile("mbarrier.inval.shared.b64 [%0];" ::IN_SHARED(bar) : "memory")

__device__ void pass(uint64_t *bar) {
    ARRIVE(bar);
    AWAIT(bar, 0);
}

// A second initialisation by thread `by` behind a barrier, after `used` phases, and after an end where `ends`.
__global__ void again(int *out, int by, int used, int ends, int other) {
    __shared__ uint64_t bars[2];
    const int t = threadIdx.x;
    if (t == 0) INIT(&bars[0], 64);
    __syncthreads();
    if (used) pass(&bars[0]);
    __syncthreads();
    if (t == by && ends) END_OF(&bars[0]);
    if (t == by) INIT(&bars[other], 64);
    __syncthreads();
    pass(&bars[other]);
    out[t] = t;
}

// An mbarrier of each round of a loop in the same place.
__global__ void rounds(int *out, int ends, int once, int u, int v) {
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    for (int i = 0; i < 3; ++i) {
        if (t == 0 && (i == 0 || !once)) INIT(&bar, 64);
        __syncthreads();
        ARRIVE(&bar);
        AWAIT(&bar, once ? i & 1 : 0);
        __syncthreads();
        if (t == 0 && ends) END_OF(&bar);
    }
    out[t] = t;
}

// Two threads initialise one mbarrier, or one each.
__global__ void both(int *out, int apart, int u, int v, int w) {
    __shared__ uint64_t bars[2];
    const int t = threadIdx.x;
    if (t == 0 || t == 32) INIT(&bars[apart ? t / 32 : 0], 64);
    __syncthreads();
    pass(&bars[0]);
    out[t] = t;
}
"""
_CODES = ("TW406",)


def _case(entry: str, values: tuple[int, int, int, int], why: str, *codes: str) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return np.zeros(64, np.int32), *map(np.int32, values)

    name = "_".join([entry, *map(str, values)])
    return Case(name, cuda_cpp(__file__, SOURCE, entry), 1, 64, arguments, why=why, codes=codes)


CASES = (
    _case("again", (0, 0, 0, 0), "Initialised twice by one thread, before any use.", *_CODES),
    _case("again", (0, 1, 0, 0), "Initialised again after a phase is complete.", *_CODES),
    _case("again", (40, 0, 0, 0), "Initialised again by another warp.", *_CODES),
    _case("again", (40, 1, 0, 0), "Initialised again by another warp after a phase.", *_CODES),
    _case("again", (0, 0, 1, 0), "Ended before it is initialised again."),
    _case("again", (0, 1, 1, 0), "Ended after a phase, and then initialised again."),
    _case("again", (40, 1, 1, 0), "Ended and initialised again by another warp, behind a barrier."),
    _case("again", (0, 1, 0, 1), "Another mbarrier is initialised."),
    _case("rounds", (0, 0, 0, 0), "Each round initialises the same place again.", *_CODES),
    _case("rounds", (1, 0, 0, 0), "Each round ends its mbarrier."),
    _case("rounds", (0, 1, 0, 0), "One initialisation, and phases with turning parities."),
    _case("both", (0, 0, 0, 0), "Two warps initialise one mbarrier.", *_CODES),
    _case("both", (1, 0, 0, 0), "Two warps initialise an mbarrier each."),
)
