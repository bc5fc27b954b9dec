"""Loads by `__ldg`, of data that the kernel writes or does not.

The model does not hold for `ld.global.nc` (PTX ISA, 8.1), whose memory has to be read-only for the whole kernel. So a
compiler moves such a load across barriers and out of loops. A thread's own element, loaded before it is stored, is
left out: that the store comes later is certain there.
"""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
// Element `by` further on is loaded, behind a barrier after all were stored, by __ldg or not.
template <bool ldg>
__global__ void behind_barrier(int *x, int *y, int by) {
    const int t = threadIdx.x;
    x[t] = t;
    __syncthreads();
    const int *p = &x[(t + by) % 64];
    y[t] = ldg ? __ldg(p) : *p;
}

// Rounds that load one array and store the other; with `in_place` both are one.
template <bool ldg>
__global__ void rounds(int *x, int *y, int in_place) {
    const int t = threadIdx.x;
    int *from = x, *to = in_place ? x : y;
    for (int i = 0; i < 2; ++i) {
        const int v = ldg ? __ldg(from + (t + 1) % 64) : from[(t + 1) % 64];
        __syncthreads();
        to[t] = v + 1;
        __syncthreads();
        if (!in_place && i == 0) from = x + 64, to = y;
    }
}

// Block 1 loads what block 0 stores, behind a flag and fences.
template <bool ldg>
__global__ void other_block(int *x, int *y, int unused) {
    volatile int *flag = x + 64;
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        x[0] = 7;
        __threadfence();
        *flag = 1;
    } else {
        while (*flag == 0) {
        }
        __threadfence();
        y[0] = ldg ? __ldg(x) : *(volatile int *)x;
    }
}

// An array that only this launch's atomics change.
template <bool ldg>
__global__ void atomics(int *x, int *y, int own) {
    const int t = threadIdx.x;
    if (!own || t == 0) atomicAdd(&x[own ? 0 : t], 1);
    __syncthreads();
    y[t] = ldg ? __ldg(&x[own ? t + 64 : t ^ 1]) : x[t];
}

// Steps of a stencil in place, of one neighbour or of two; the compiler loads before the loop.
template <bool ldg>
__global__ void steps(int *x, int *y, int two) {
    const int t = threadIdx.x, *next = &x[(t + 1) % 64], *last = &x[(t + 63) % 64];
    for (int i = 0; i < 3; ++i) {
        int v = ldg ? __ldg(next) : *next;
        if (two) v += ldg ? __ldg(last) : *last;
        __syncthreads();
        x[t] = v;
        __syncthreads();
    }
}

// Each thread changes the element that it has loaded, or the one `by` further on.
template <bool ldg>
__global__ void one_each(int *x, int *y, int by) {
    const int t = threadIdx.x, *from = &x[(t + by) % 64], v = ldg ? __ldg(from) : *from;
    __syncthreads();
    x[t] = v + 1;
}

// The loads of a pointer that is said to have no other.
template <bool ldg>
__global__ void said(const int *__restrict__ from, int *__restrict__ to, int by) {
    const int t = threadIdx.x, v = from[(t + by) % 64];
    __syncthreads();
    to[t] = v + 1;
}
"""


def _case(
    entry: str, ldg: bool, value: int, why: str, *codes: str, launch: tuple[int, int] = (1, 64), one_array: bool = False
) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        x = np.zeros(128, np.int32)
        return x, x if one_array else np.zeros(64, np.int32), np.int32(value)

    kernel = cuda_cpp(__file__, SOURCE, f"{entry}<{str(ldg).lower()}>")
    return Case(f"{entry}_{ldg:d}_{value}{'_one' * one_array}", kernel, *launch, arguments, why=why, codes=codes)


CASES = (
    _case("behind_barrier", False, 1, "Coherent loads behind a barrier."),
    _case("behind_barrier", True, 1, "Loads by __ldg of what other threads stored.", "TW310"),
    _case("behind_barrier", True, 0, "Loads by __ldg of what the same thread stored.", "TW310"),
    _case("rounds", True, 0, "What is loaded by __ldg is never written."),
    _case("rounds", True, 1, "The second round loads by __ldg what the first has stored.", "TW310"),
    _case("rounds", False, 1, "The same by coherent loads."),
    _case("other_block", True, 0, "Only coherent loads come behind that store.", "TW310", launch=(2, 32)),
    _case("other_block", False, 0, "The same by a coherent load.", launch=(2, 32)),
    _case("atomics", True, 0, "Atomics write too.", "TW310"),
    _case("atomics", True, 1, "Atomics write another element."),
    _case("atomics", False, 0, "A coherent load behind a barrier."),
    _case("steps", True, 0, "What the loop stores is loaded by __ldg before it.", "TW310"),
    _case("steps", True, 1, "The same of two neighbours.", "TW310"),
    _case("steps", False, 1, "The same by coherent loads."),
    _case("one_each", True, 0, "Only its own thread stores what it has loaded."),
    _case("one_each", True, 1, "Another thread stores what was loaded by __ldg.", "TW310"),
    _case("one_each", False, 1, "The same by coherent loads."),
    _case("said", True, 1, "The two pointers are to arrays of their own."),
    _case("said", True, 0, "Each thread stores what it alone has loaded.", one_array=True),
    _case("said", True, 1, "Both pointers are to one array.", "TW310", one_array=True),
)  # fmt: skip
