"""Several warps read words, and one that waits for some of them writes the words.

An arrival at an mbarrier releases what its thread did, and a wait acquires what the arrivals of the phase released. So
a write is ordered behind the reads of those whose arrival it has awaited, and races with all other reads.
"""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include "mbarriers.cuh"

// Warps from 1 on read, each in all its lanes or in lane 0, and arrive by lane 0; warp 0 awaits all but `missing`.
__global__ void readers(int *out, int lanes, int missing) {
    __shared__ int tile[32];
    __shared__ uint64_t bars[4];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, count = blockDim.x / 32 - 1;
    if (t == 0) for (int i = 0; i < count; ++i) INIT(&bars[i], 1);
    if (warp == 0) tile[lane] = 5;
    __syncthreads();
    if (warp > 0) {
        if (lane < lanes) out[t] = tile[lane];
        __syncwarp();
        if (lane == 0) ARRIVE(&bars[warp - 1]);
    } else {
        for (int i = 0; i < count; ++i) if (i != missing) AWAIT(&bars[i], 0);
        if (lane < lanes) tile[lane] = 7;
    }
}

// The same with one mbarrier that all warps arrive at, of `expected` arrivals.
__global__ void one_mbarrier(int *out, int lanes, int late) {
    __shared__ int tile[32];
    __shared__ uint64_t bar;
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, count = blockDim.x / 32 - 1;
    if (t == 0) INIT(&bar, count);
    if (warp == 0) tile[lane] = 5;
    __syncthreads();
    if (warp > 0) {
        if (warp - 1 != late && lane < lanes) out[t] = tile[lane];
        __syncwarp();
        if (lane == 0) ARRIVE(&bar);
        if (warp - 1 == late && lane < lanes) out[t] = tile[lane];
    } else {
        AWAIT(&bar, 0);
        if (lane < lanes) tile[lane] = 7;
    }
}

// Each reading warp meets the writing one at a named barrier of its own.
__global__ void named(int *out, int lanes, int missing) {
    __shared__ int tile[32];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, count = blockDim.x / 32 - 1;
    if (warp == 0) tile[lane] = 5;
    __syncthreads();
    if (warp > 0) {
        if (lane < lanes) out[t] = tile[lane];
        asm volatile("bar.arrive %0, 64;" ::"r"(warp) : "memory");
    } else {
        for (int i = 1; i <= count; ++i) if (i - 1 != missing) asm volatile("bar.sync %0, 64;" ::"r"(i) : "memory");
        if (lane < lanes) tile[lane] = 7;
    }
}

// The same words in global memory.
__global__ void in_global(int *out, int lanes, int missing) {
    __shared__ uint64_t bars[4];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, count = blockDim.x / 32 - 1;
    int *tile = out + 256;
    if (t == 0) for (int i = 0; i < count; ++i) INIT(&bars[i], 1);
    __syncthreads();
    if (warp > 0) {
        if (lane < lanes) out[t] = tile[lane];
        __syncwarp();
        if (lane == 0) ARRIVE(&bars[warp - 1]);
    } else {
        for (int i = 0; i < count; ++i) if (i != missing) AWAIT(&bars[i], 0);
        if (lane < lanes) tile[lane] = 7;
    }
}

// Atomics of global memory instead of reads, and a plain read by warp 0.
__global__ void atomics(int *out, int lanes, int missing) {
    __shared__ uint64_t bars[4];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, count = blockDim.x / 32 - 1;
    int *tile = out + 256;
    if (t == 0) for (int i = 0; i < count; ++i) INIT(&bars[i], 1);
    __syncthreads();
    if (warp > 0) {
        if (lane < lanes) atomicAdd(&tile[lane], 1);
        __syncwarp();
        if (lane == 0) ARRIVE(&bars[warp - 1]);
    } else {
        for (int i = 0; i < count; ++i) if (i != missing) AWAIT(&bars[i], 0);
        if (lane < lanes) out[t] = tile[lane];
    }
}
"""
#: Fences order by orders of their own, which take every barrier for one of the whole block.
FLAGS = r"""
// Each reading warp says that it has read by a flag of its own in global memory.
__global__ void flags(int *out, int lanes, int missing) {
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, count = blockDim.x / 32 - 1;
    int *tile = out + 256;
    volatile int *flag = out + 384;
    if (warp > 0) {
        if (lane < lanes) out[t] = tile[lane];
        __syncwarp();
        __threadfence();
        if (lane == 0) flag[warp] = 1;
    } else {
        for (int i = 0; i < count; ++i) if (i != missing) while (flag[i + 1] == 0) { }
        __threadfence();
        __syncwarp();
        if (lane < lanes) tile[lane] = 7;
    }
}
"""
_ALL = -1
_IN_GLOBAL = ("in_global", "atomics", "flags")


def _case(entry: str, readers: int, lanes: int, missing: int) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return np.zeros(512, np.int32), np.int32(lanes), np.int32(missing)

    name = f"{entry}_{readers}_readers_of_{lanes}_{'all' if missing == _ALL else missing}"
    code = "TW302" if entry in _IN_GLOBAL else "TW301"
    if missing == _ALL:
        why = f"The write comes after the arrivals of all {readers} readers."
    elif entry == "one_mbarrier":
        why = f"Reader {missing} reads behind its arrival, which does not release that."
    else:
        why = f"Nothing orders the read of reader {missing} before the write."
    text = cuda_cpp(__file__, FLAGS if entry == "flags" else SOURCE, entry)
    codes = () if missing == _ALL else (code,)
    known = "atomics of several warps in global memory are kept as one" if entry == "atomics" and codes else ""
    return Case(name, text, 1, 32 * (readers + 1), arguments, why=why, codes=codes, known=known)


CASES = (
    *(_case("readers", 2, lanes, missing) for lanes in (1, 32) for missing in (_ALL, 0, 1)),
    *(_case("readers", 3, lanes, missing) for lanes in (1, 32) for missing in (_ALL, 1)),
    *(_case("one_mbarrier", 2, lanes, late) for lanes in (1, 32) for late in (_ALL, 0, 1)),
    *(_case("named", 2, lanes, missing) for lanes in (1, 32) for missing in (_ALL, 0, 1)),
    *(_case("in_global", 2, lanes, missing) for lanes in (1, 32) for missing in (_ALL, 0, 1)),
    *(_case("in_global", 3, lanes, missing) for lanes in (1, 32) for missing in (_ALL, 1)),
    *(_case(entry, 2, lanes, missing) for entry in _IN_GLOBAL[1:] for lanes in (1, 32) for missing in (_ALL, 0)),
)
