"""Memory of the device's heap: given back twice, used after that, read before it was written, overrun."""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
// `frees`: how often; `late`: read after that; `unset`: elements that nothing writes; `beyond`: elements past the end.
__global__ void block_of_heap(int *out, int frees, int late, int unset, int beyond) {
    volatile int *p = static_cast<volatile int *>(malloc(16 * sizeof(int)));
    if (p == nullptr) return;
    for (int i = 0; i < 16 - unset + beyond; ++i) p[i] = i;
    int sum = 0;
    if (!late) for (int i = 0; i < 16; ++i) sum += p[i];
    for (int i = 0; i < frees; ++i) free((void *)p);
    if (late) sum += p[3];
    out[threadIdx.x] = sum;
}

// An array by `new`, of a structure, given to another thread through shared memory; `waits`: behind a barrier.
__global__ void handed_on(int *out, int waits, int again, int u, int v) {
    __shared__ int *p;
    if (threadIdx.x == 0) {
        p = new int[64];
        for (int i = 0; i < 64; ++i) p[i] = i;
    }
    __syncthreads();
    out[threadIdx.x] = p[threadIdx.x];
    if (waits) __syncthreads();
    if (threadIdx.x == 40 || (again && threadIdx.x == 41)) delete[] p;
}

// `at`: what is freed, in 4 bytes from the block's start; -9: null; -8: the argument; -7: a local variable.
__global__ void what_is_freed(int *out, int at, int bytes, int u, int v) {
    int *p = static_cast<int *>(malloc(64)), own[2];
    own[out[63]] = 1;
    p[0] = own[0];
    for (int i = 1; i < 16; ++i) p[i] = i;
    out[threadIdx.x] = p[15] + p[0] + own[out[63]];
    int *other = at == -9 ? nullptr : at == -8 ? out : own;
    free(at <= -7 ? other : reinterpret_cast<int *>(reinterpret_cast<char *>(p + at) + bytes));
}

// A block is taken, used and given back `rounds` times; `stale`: the first one is read again at the end.
__global__ void again(int *out, int rounds, int stale, int u, int v) {
    volatile int *first = nullptr;
    int sum = 0;
    for (int i = 0; i < rounds; ++i) {
        volatile int *p = static_cast<volatile int *>(malloc(64));
        if (i == 0) first = p;
        p[i % 16] = i;
        sum += p[i % 16];
        free((void *)p);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum + (stale ? first[0] : 0);
}

// A block goes to the next thread block through a flag, or to the reader alone; `fenced`: with fences.
__device__ int *volatile sent;
__global__ void sent_on(int *out, int fenced, int early, int u, int v) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        int *p = static_cast<int *>(malloc(64));
        p[0] = 7;
        if (fenced) __threadfence();
        sent = p;
        if (early) free(p);
    } else {
        int *p;
        while ((p = sent) == nullptr) {}
        if (fenced) __threadfence();
        if (!early) { out[0] = *p; free(p); }
    }
}
"""


def _case(
    entry: str, values: tuple[int, int, int, int], why: str, *codes: str, threads: int = 1, grid: int = 1
) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return np.zeros(64, np.int32), *map(np.int32, values)

    name = "_".join([entry, *map(str, values), str(threads * grid)])
    kernel = cuda_cpp(__file__, SOURCE, entry)
    return Case(name, kernel, grid, threads, arguments, why=why, codes=codes)


CASES = (
    _case("block_of_heap", (1, 0, 0, 0), "Written, read and given back once."),
    _case("block_of_heap", (1, 0, 0, 0), "The same by every thread of a warp.", threads=32),
    _case("block_of_heap", (0, 0, 0, 0), "Not given back: no access is wrong."),
    _case("block_of_heap", (2, 0, 0, 0), "Given back twice.", "TW105"),
    _case("block_of_heap", (2, 0, 0, 0), "Given back twice by each thread.", "TW105", threads=32),
    _case("block_of_heap", (1, 1, 0, 0), "Read after it was given back.", "TW105"),
    _case("block_of_heap", (1, 0, 1, 0), "The last element was never written.", "TW201"),
    _case("block_of_heap", (1, 0, 16, 0), "No element was written.", "TW201"),
    _case("block_of_heap", (1, 0, 0, 4), "Four elements past the end are written.", "TW101"),
    _case("handed_on", (1, 0, 0, 0), "Given back behind a barrier after the reads.", threads=64),
    _case("handed_on", (0, 0, 0, 0), "Given back while the other warp may still read.", "TW302", "TW105", threads=64),
    _case("handed_on", (1, 1, 0, 0), "Given back by two threads.", "TW105", threads=64),
    _case("what_is_freed", (0, 0, 0, 0), "The block is freed."),
    _case("what_is_freed", (-9, 0, 0, 0), "Null is freed, which does nothing."),
    _case("what_is_freed", (4, 0, 0, 0), "A part of the block is freed.", "TW111"),
    _case("what_is_freed", (4, 0, 0, 0), "A part of each thread's block is freed.", "TW111", threads=3),
    _case("what_is_freed", (1, 1, 0, 0), "An address is freed that is a multiple of nothing.", "TW111"),
    _case("what_is_freed", (-4, 0, 0, 0), "An address before the block is freed.", "TW111"),
    _case("what_is_freed", (-8, 0, 0, 0), "An array of the host is freed.", "TW111"),
    _case("what_is_freed", (-7, 0, 0, 0), "A local variable is freed.", "TW111"),
    _case("again", (5, 0, 0, 0), "Blocks are taken and given back.", threads=32, grid=2),
    _case("again", (700, 0, 0, 0), "So many are taken that blocks are given again.", threads=32),
    _case("again", (5, 1, 0, 0), "The first block is read after others were taken.", "TW105", threads=32),
    _case("sent_on", (1, 0, 0, 0), "Another thread block frees what it was sent, with fences.", grid=2),
    _case("sent_on", (0, 0, 0, 0), "The same without fences.", "TW303", grid=2),
    _case("sent_on", (1, 1, 0, 0), "The sender frees its block, which nobody reads.", grid=2),
)  # fmt: skip
