"""Lanes in step, equal values by several threads, and volatile data that nothing orders; checked with `--strict`.

Volatile accesses are strong, so those of two lanes are no data race; but nothing orders them, and the code needs one
order: a warning (TW311). Several threads' weak stores of one value are a data race of which every outcome is the same:
a warning too (TW312). Weak accesses whose values differ are an error. Volatile accesses by warps or blocks are strong
too, and a warning (TW313) where what they read decides nothing, so that they are no flag.
"""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
// The last steps of a sum; `syncs`: a barrier of the warp around each.
__global__ void volatile_sum(const int *x, int *out, int syncs) {
    __shared__ volatile int s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32)
        for (int d = 32; d > 0; d /= 2) {
            const int sum = s[t] + s[t + d];
            if (syncs) __syncwarp();
            s[t] = sum;
            if (syncs) __syncwarp();
        }
    if (t == 0) out[0] = s[0];
}

// The same without volatile.
__global__ void plain_sum(const int *x, int *out, int syncs) {
    __shared__ int s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32)
        for (int d = 32; d > 0; d /= 2) {
            const int sum = s[t] + s[t + d];
            if (syncs) __syncwarp();
            s[t] = sum;
            if (syncs) __syncwarp();
        }
    if (t == 0) out[0] = s[0];
}

// A scan within a warp.
__global__ void volatile_scan(const int *x, int *out, int syncs) {
    __shared__ volatile int s[64];
    const int t = threadIdx.x, w = t / 32 * 32;
    s[t] = x[t];
    if (syncs) __syncwarp();
    for (int d = 1; d < 32; d *= 2) {
        const int before = t - w >= d ? s[t - d] : 0;
        if (syncs) __syncwarp();
        s[t] += before;
        if (syncs) __syncwarp();
    }
    out[t] = s[t];
}

// Lanes exchange through global memory.
__global__ void volatile_exchange(const int *x, volatile int *out, int syncs) {
    const int t = threadIdx.x;
    out[t] = x[t];
    if (syncs) __syncwarp();
    const int other = out[t ^ 1];
    if (syncs) __syncwarp();
    out[t] = other;
}

// A flag that lanes (1), warps (2) or blocks (3) set, all to one value or each to its own.
__global__ void flag(const int *x, int *out, int who, int own) {
    const int t = threadIdx.x, sets = who == 1 ? t < 32 && blockIdx.x == 0 : who == 2 ? blockIdx.x == 0 : 1;
    if (sets) out[0] = own ? t + 64 * blockIdx.x : 1;
}

// The same in shared memory.
__global__ void shared_flag(const int *x, int *out, int who, int own) {
    __shared__ int found;
    const int t = threadIdx.x;
    if (t == 0) found = 0;
    __syncthreads();
    if (x[t] > 0 && (who == 2 || t < 32)) found = own ? t : 1;
    __syncthreads();
    out[t] = found;
}

// A flag between warps, volatile and meant: the waiting warp needs no order but that.
__global__ void volatile_flag(const int *x, int *out, int unused) {
    __shared__ volatile int ready;
    const int t = threadIdx.x;
    if (t == 0) ready = 0;
    __syncthreads();
    if (t == 0) ready = 1;
    if (t == 32) {
        while (ready == 0) {
        }
        out[0] = 1;
    }
}

__device__ int gate;
__device__ volatile int word;

// Two threads, of a block or of two, change a word each behind a lock: `opens` and `closes` have its fences.
__global__ void locked(const int *x, int *out, int opens, int closes) {
    const int t = threadIdx.x + 32 * blockIdx.x;
    if (t != 0 && t != 32) return;
    while (atomicCAS(&gate, 0, 1) != 0) {
    }
    if (opens) __threadfence();
    word = x[t];
    if (closes) __threadfence();
    atomicExch(&gate, 0);
}

// A word that another thread reads behind a volatile flag.
__global__ void answered(const int *x, volatile int *out, int fences, int unused) {
    const int t = threadIdx.x + 32 * blockIdx.x;
    volatile int *flag = out + 8;
    if (t == 0) {
        out[0] = x[0];
        if (fences) __threadfence();
        *flag = 1;
    } else if (t == 32) {
        while (*flag == 0) {
        }
        if (fences) __threadfence();
        out[1] = out[0];
    }
}

// An exchange that nobody reads, and a volatile store of another value (0) or of a word beside it (1).
__global__ void exchanged(const int *x, volatile int *out, int beside, int unused) {
    if (threadIdx.x == 0) atomicExch((int *)out, 1);
    if (threadIdx.x == 32) out[beside] = 2;
}
"""


def _case(
    entry: str, values: tuple[int, ...], why: str, *codes: str, launch: tuple[int, int] = (1, 64), known: str = ""
) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return rng.integers(1, 99, 64).astype(np.int32), np.zeros(64, np.int32), *map(np.int32, values)

    name = "_".join([entry, *map(str, values), *(["blocks"] if launch == (2, 32) else [])])
    kernel = cuda_cpp(__file__, SOURCE, entry)
    return Case(name, kernel, *launch, arguments, why=why, codes=codes, strict=True, known=known)


CASES = (
    _case("volatile_sum", (0,), "Steps of volatile accesses that nothing orders.", "TW311"),
    _case("volatile_sum", (1,), "A barrier of the warp before and behind each store."),
    _case("plain_sum", (0,), "Weak accesses of lanes that nothing orders.", "TW304", "TW302"),
    _case("plain_sum", (1,), "A barrier of the warp before and behind each store."),
    _case("volatile_scan", (0,), "Each step loads what another lane stored in the step before.", "TW311"),
    _case("volatile_scan", (1,), "A barrier of the warp before and behind each store."),
    _case("volatile_exchange", (0,), "A lane loads what its neighbour stored.", "TW311"),
    _case("volatile_exchange", (1,), "A barrier of the warp between."),
    _case("flag", (1, 0), "Lanes store one value.", "TW312", launch=(2, 64)),
    _case("flag", (2, 0), "Warps store one value.", "TW312", launch=(2, 64)),
    _case("flag", (3, 0), "Blocks store one value.", "TW312", launch=(2, 64)),
    _case("flag", (1, 1), "Lanes store values of their own.", "TW304", launch=(2, 64)),
    _case("flag", (2, 1), "Warps store values of their own.", "TW302", "TW304", launch=(2, 64)),
    _case("flag", (3, 1), "Blocks store values of their own.", "TW303", "TW302", "TW304", launch=(2, 64)),
    _case("shared_flag", (1, 0), "Lanes store one value.", "TW312"),
    _case("shared_flag", (2, 0), "Warps store one value.", "TW312"),
    _case("shared_flag", (1, 1), "Lanes store values of their own.", "TW304"),
    _case("shared_flag", (2, 1), "Warps store values of their own.", "TW301", "TW304"),
    _case("volatile_flag", (0,), "A volatile flag between warps, on which no other access depends."),
    _case("locked", (1, 1), "Fences behind the lock's start and before its end.", launch=(1, 64)),
    _case("locked", (1, 1), "The same by two blocks.", launch=(2, 32)),
    _case("locked", (0, 1), "No fence behind the lock's start.", "TW313", launch=(1, 64)),
    _case("locked", (1, 0), "No fence before the lock's end, between two blocks.", "TW313", launch=(2, 32)),
    _case("answered", (1, 0), "A fence on both sides of a volatile flag.", launch=(2, 32)),
    _case("answered", (0, 0), "A volatile word behind a volatile flag, without fences.", "TW313", launch=(2, 32)),
    _case("exchanged", (1, 0), "An exchange and a store of another word."),
    _case("exchanged", (0, 0), "An exchange and a volatile store, in either order.", "TW313"),
)  # fmt: skip
