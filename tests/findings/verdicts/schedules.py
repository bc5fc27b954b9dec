"""Races that only some schedules show: which threads access what depends on who comes first.

A program has a race if any execution that the model allows has one.
"""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#define FIRST_THREADS if (threadIdx.x != 0) return

// Block 1 looks once whether block 0 has stored; `guarded`: it loads only if so.
__global__ void look_once(int *data, int *flag, int *out, int guarded) {
    FIRST_THREADS;
    if (blockIdx.x == 0) {
        data[0] = 7;
        __threadfence();
        atomicExch(flag, 1);
    } else {
        const int seen = atomicAdd(flag, 0);
        __threadfence();
        if (seen || !guarded) out[0] = data[0];
    }
}

// The same the other way round: block 0 looks whether block 1 has stored.
__global__ void look_back(int *data, int *flag, int *out, int guarded) {
    FIRST_THREADS;
    if (blockIdx.x == 1) {
        data[0] = 7;
        __threadfence();
        atomicExch(flag, 1);
    } else {
        const int seen = atomicAdd(flag, 0);
        __threadfence();
        if (seen || !guarded) out[0] = data[0];
    }
}

// Who draws the first ticket stores, the second loads; `waits`: until the first has stored.
__global__ void tickets(int *data, int *flag, int *out, int waits) {
    FIRST_THREADS;
    if (atomicAdd(&flag[1], 1) == 0) {
        data[0] = 7;
        __threadfence();
        atomicExch(flag, 1);
    } else {
        if (waits)
            while (atomicAdd(flag, 0) == 0) {
            }
        __threadfence();
        out[0] = data[0];
    }
}

// A queue from which blocks take work; each item is of its own taker, or also of the next one's.
__global__ void queue(int *data, int *head, int *out, int overlaps) {
    FIRST_THREADS;
    for (int i = atomicAdd(head, 1); i < 6; i = atomicAdd(head, 1)) {
        data[i] = i;
        if (overlaps && i > 0) out[i] = data[i - 1];
    }
}

// Warp 1 takes a lock that warp 0 may hold, tries once, and goes on in any case or only where it has the lock.
__global__ void try_lock(int *data, int *lock, int *out, int holds) {
    const int t = threadIdx.x;
    if (t % 32 != 0) return;
    const int mine = atomicCAS(lock, 0, 1) == 0;
    __threadfence();
    if (mine || !holds) data[0] += 1;
    __threadfence();
    if (mine) atomicExch(lock, 0);
}
"""


def _case(entry: str, value: int, why: str, *codes: str, launch: tuple[int, int] = (2, 32)) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return *(np.zeros(64, np.int32) for _ in range(3)), np.int32(value)

    kernel = cuda_cpp(__file__, SOURCE, entry)
    return Case(f"{entry}_{value}", kernel, *launch, arguments, why=why, codes=codes)


CASES = (
    _case("look_once", 1, "It loads only where it has seen the flag."),
    _case("look_once", 0, "Where it comes first, nothing orders its load.", "TW303"),
    _case("look_back", 1, "It loads only where it has seen the flag."),
    _case("look_back", 0, "Where it comes first, nothing orders its load.", "TW303"),
    _case("tickets", 1, "The second waits for the first's store."),
    _case("tickets", 0, "The second may load before the first has stored.", "TW303"),
    _case("queue", 0, "Each item has one taker."),
    _case("queue", 1, "Another block may have taken the item before.", "TW303", launch=(3, 32)),
    _case("try_lock", 1, "Only a holder changes the word.", launch=(1, 64)),
    _case("try_lock", 0, "Where the lock is held, both change the word.", "TW302", launch=(1, 64)),
)  # fmt: skip
