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
"""

_HEAP = "the heap is one allocation, whose blocks check does not follow"


def _case(
    entry: str, values: tuple[int, int, int, int], why: str, *codes: str, threads: int = 1, known: str = ""
) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return np.zeros(64, np.int32), *map(np.int32, values)

    name = "_".join([entry, *map(str, values), str(threads)])
    kernel = cuda_cpp(__file__, SOURCE, entry)
    return Case(name, kernel, 1, threads, arguments, why=why, codes=codes, known=_HEAP if codes else "")


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
)  # fmt: skip
