"""More asynchronous copies in flight at once than most kernels have, and one access that does not wait for them."""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#include <cuda_pipeline.h>

#include "mbarriers.cuh"

// A warp copies `rows` rows of a tile, a word each lane. Row `early` is read before the wait.
__global__ void words(int *out, const int *x, int rows, int early) {
    extern __shared__ int4 memory[];
    int *tile = reinterpret_cast<int *>(memory);
    const int t = threadIdx.x;
    for (int i = 0; i < rows; ++i) __pipeline_memcpy_async(&tile[32 * i + t], &x[t], 4);
    __pipeline_commit();
    if (early >= 0) out[t] = tile[32 * early + t];
    __pipeline_wait_prior(0);
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < rows; ++i) sum += tile[32 * i + (t ^ 1)];
    out[32 + t] = sum;
}

// The same, and a store to the words that copy `late` reads, before the wait for it or after.
__global__ void sources(int *out, int *x, int rows, int late) {
    extern __shared__ int4 memory[];
    int *tile = reinterpret_cast<int *>(memory);
    const int t = threadIdx.x;
    for (int i = 0; i < rows; ++i) __pipeline_memcpy_async(&tile[32 * i + t], &x[32 * i + t], 4);
    __pipeline_commit();
    if (late >= 0) x[32 * late + t] = 1;
    __pipeline_wait_prior(0);
    if (late < 0) x[t] = 1;
    out[t] = tile[t];
}

// Each thread of the block loads a row of 16 bytes; thread `early` reads its own before the wait.
__global__ void rows_by_bulk(int *out, const int *x, int early, int) {
    extern __shared__ int4 memory[];
    int *tile = reinterpret_cast<int *>(memory);
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) INIT(&bar, blockDim.x);
    __syncthreads();
    ARRIVE_AND_EXPECT(&bar, 16);
    LOAD_BULK(&tile[4 * t], &x[4 * (t & 7)], 16, &bar);
    if (t == early) out[1024] = tile[4 * t];
    AWAIT(&bar, 0);
    out[t] = tile[4 * t] + tile[4 * (t ^ 1)];
}

// Each thread stores a row of 16 bytes, and one overwrites another's before the wait, or behind it.
__global__ void stores_by_bulk(int *out, const int *x, int early, int) {
    extern __shared__ int4 memory[];
    int *tile = reinterpret_cast<int *>(memory);
    const int t = threadIdx.x;
    for (int i = 0; i < 4; ++i) tile[4 * t + i] = t;
    FENCE_PROXY;
    __syncthreads();
    STORE_BULK(&out[4 * t], &tile[4 * t], 16);
    COMMIT_BULK;
    if (t == early) out[4 * t] = 5;
    WAIT_BULK();
    if (early < 0) out[4 * t] = 5;
}
"""


def _case(entry: str, threads: int, first: int, second: int, shared_bytes: int, why: str, *codes: str) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return np.zeros(8192, np.int32), np.ones(32 * 512, np.int32), np.int32(first), np.int32(second)

    return Case(
        f"{entry}_{threads}_{first}_{second}", cuda_cpp(__file__, SOURCE, entry), 1, threads, arguments, why=why,
        codes=codes, shared_bytes=shared_bytes,
    )  # fmt: skip


CASES = (
    _case("words", 32, 360, -1, 360 * 128, "All copies are awaited."),
    _case("words", 32, 360, 3, 360 * 128, "Copy 3 may be in flight.", "TW306"),
    _case("words", 32, 360, 359, 360 * 128, "Copy 359 may be in flight.", "TW306"),
    _case("sources", 32, 300, -1, 300 * 128, "The copies have read when their sources are written."),
    _case("sources", 32, 300, 7, 300 * 128, "Copy 7 may still read.", "TW306"),
    _case("sources", 32, 300, 299, 300 * 128, "Copy 299 may still read.", "TW306"),
    _case("rows_by_bulk", 512, -1, 0, 512 * 16, "All copies are awaited."),
    _case("rows_by_bulk", 512, 2, 0, 512 * 16, "The copy of thread 2 may be in flight.", "TW306"),
    _case("rows_by_bulk", 512, 511, 0, 512 * 16, "The copy of thread 511 may be in flight.", "TW306"),
    _case("stores_by_bulk", 256, -1, 0, 256 * 16, "All copies are complete."),
    _case("stores_by_bulk", 256, 1, 0, 256 * 16, "The copy of thread 1 may still write.", "TW306"),
    _case("stores_by_bulk", 256, 255, 0, 256 * 16, "The copy of thread 255 may still write.", "TW306"),
)
