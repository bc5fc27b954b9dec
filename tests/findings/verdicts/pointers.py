"""Null pointers, stores to constants, and barriers of the block that not all threads come to."""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
typedef int (*Function)(int);
__constant__ int table[64] = {1, 2, 3};
__device__ int twice(int x) { return 2 * x; }
__device__ Function chosen[2] = {twice, nullptr};

// `p` is null; `what`: 0 nothing, 1 a load, 2 a store, 3 a load beyond it, 4 an atomic.
__global__ void null_data(int *out, int *p, int what) {
    const int t = threadIdx.x;
    if (what == 1) out[t] = p[t];
    if (what == 2) p[t] = t;
    if (what == 3) out[t] = p[t + 1024];
    if (what == 4) atomicAdd(p, 1);
    if (what == 0) out[t] = p == nullptr;
}

// A call through entry `which` of a table, where `guarded` only if it is not null.
__global__ void null_call(int *out, int which, int guarded) {
    Function f = chosen[which];
    const int t = threadIdx.x;
    out[t] = guarded && f == nullptr ? 0 : f(t);
}

// A store to a constant (1), to a parameter's copy (2), or loads alone (0).
__global__ void constants(int *out, int what, int at) {
    const int t = threadIdx.x;
    int *p = what == 1 ? const_cast<int *>(&table[at]) : out + at;
    if (what) p[0] = 5;
    out[t + 1] = table[t % 3];
}

// A barrier that the threads below `from` do not reach: they leave (0), or wait at another (1).
__global__ void barriers(int *out, int from, int other) {
    const int t = threadIdx.x;
    if (t < from) {
        if (!other) return;
        asm volatile("barrier.sync 1;" ::: "memory");
    } else {
        asm volatile("barrier.sync 0;" ::: "memory");
    }
    out[t] = t;
}

// A loop with a barrier, whose count is the thread's own from thread `from` on.
__global__ void counts(int *out, int from, int unused) {
    const int t = threadIdx.x;
    for (int i = 0; i < (t >= from ? t % 4 : 3); ++i) __syncthreads();
    out[t] = t;
}
"""


def _case(entry: str, given: tuple[object, ...], name: str, why: str, *codes: str, known: str = "") -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return np.zeros(65 if entry == "constants" else 64, np.int32), *given

    kernel = cuda_cpp(__file__, SOURCE, entry)
    return Case(f"{entry}_{name}", kernel, 1, 64, arguments, why=why, codes=codes, known=known)


def _ints(*values: int) -> tuple[np.int32, ...]:
    return tuple(map(np.int32, values))


_BARRIER = ("TW401", "TW402", "TW403")
CASES = (
    _case("null_data", (0, np.int32(0)), "unused", "A null pointer is compared, not used."),
    _case("null_data", (0, np.int32(1)), "load", "A load through a null pointer.", "TW101"),
    _case("null_data", (0, np.int32(2)), "store", "A store through a null pointer.", "TW101"),
    _case("null_data", (0, np.int32(3)), "load_beyond", "A load of an element of a null array.", "TW101"),
    _case("null_data", (0, np.int32(4)), "atomic", "An atomic through a null pointer.", "TW101"),
    _case("null_call", _ints(0, 0), "set", "A call of a function."),
    _case("null_call", _ints(1, 1), "guarded", "A null pointer is not called."),
    _case("null_call", _ints(1, 0), "null", "A call through a null pointer.", "TW110"),
    _case("constants", _ints(0, 0), "loaded", "Constants are loaded."),
    _case("constants", _ints(2, 0), "beside", "A store to an array."),
    _case("constants", _ints(1, 5), "stored", "A store to constant memory.", "TW106"),
    _case("barriers", _ints(0, 0), "all", "All threads come to the barrier."),
    _case("barriers", _ints(32, 1), "two", "One warp does not come to the barrier of all.", *_BARRIER),
    _case("barriers", _ints(16, 0), "left_lanes", "Lanes leave before the barrier.", *_BARRIER),
    _case("barriers", _ints(16, 1), "lanes", "Lanes of one warp wait at two barriers.", *_BARRIER),
    _case("counts", _ints(64, 0), "alike", "Every thread comes to three barriers."),
    _case("counts", _ints(32, 0), "warps", "Lanes of the second warp come to as many as they please.", *_BARRIER),
    _case("counts", _ints(0, 0), "threads", "Each thread comes to as many barriers as it pleases.", *_BARRIER),
)  # fmt: skip
