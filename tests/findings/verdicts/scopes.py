"""CUDA C++ that hands a buffer to another block or another warp, or counts, with scopes that reach there or do not."""

from __future__ import annotations

import itertools

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__device__ void fence(int kind) {
    if (kind == 1) __threadfence_block();
    if (kind == 2) __threadfence();
    if (kind == 3) __threadfence_system();
}

// Thread 0 of a block or a warp stores, fences and sets a flag; that of the other waits, fences and loads.
__global__ void by_fences(int *data, volatile int *flag, int *out, int writes, int reads, int in_block) {
    const int t = threadIdx.x, me = in_block ? t / 32 : blockIdx.x;
    if (t % 32 != 0 || me > 1 || (!in_block && t != 0)) return;
    if (me == 0) {
        data[0] = 42;
        fence(writes);
        *flag = 1;
    } else {
        while (*flag == 0) {
        }
        fence(reads);
        out[0] = data[0];
    }
}

// The same with atomics as flag.
__global__ void by_atomics(int *data, int *flag, int *out, int writes, int reads, int of_block) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        data[0] = 42;
        fence(writes);
        if (of_block) atomicExch_block(flag, 1);
        else atomicExch(flag, 1);
    } else {
        while ((of_block ? atomicAdd_block(flag, 0) : atomicAdd(flag, 0)) == 0) {
        }
        fence(reads);
        out[0] = data[0];
    }
}

// Counters: what is added, by atomics of a block, of the GPU or of the system.
__global__ void count(int *data, int *counter, int *out, int scope, int each, int unused) {
    int *mine = counter + (each ? blockIdx.x : 0);
    if (scope == 1) atomicAdd_block(mine, 1);
    if (scope == 2) atomicAdd(mine, 1);
    if (scope == 3) atomicAdd_system(mine, 1);
    if (scope == 4) (blockIdx.x ? atomicAdd(mine, 1) : atomicAdd_block(mine, 1));
}

// A lock around an addition. The fences that it needs: behind taking and before giving back.
__global__ void lock(int *data, int *taken, int *out, int behind, int before, int unused) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(taken, 0, 1) != 0) {
    }
    fence(behind);
    data[0] += 1;
    fence(before);
    atomicExch(taken, 0);
}

// The last block adds up what all stored; `fenced`: before its ticket, behind it.
__global__ void last_block(int *data, int *tickets, int *out, int before, int behind, int unused) {
    if (threadIdx.x != 0) return;
    data[blockIdx.x] = blockIdx.x;
    fence(before);
    if (atomicAdd(tickets, 1) + 1 == gridDim.x) {
        fence(behind);
        int sum = 0;
        for (int i = 0; i < gridDim.x; ++i) sum += data[i];
        out[0] = sum;
    }
}
"""
_FENCES = ("no fence", "a fence of the block", "a fence of the GPU", "a fence of the system")


def _case(entry: str, a: int, b: int, c: int, why: str, *codes: str, launch: tuple[int, int] = (2, 64)) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return *(np.zeros(64, np.int32) for _ in range(3)), np.int32(a), np.int32(b), np.int32(c)

    return Case(
        f"{entry}_{a}_{b}_{c}", cuda_cpp(__file__, SOURCE, entry), *launch, arguments, why=why, codes=codes
    )  # fmt: skip


def _handed_over(entry: str, writes: int, reads: int, last: int, *, in_block: bool, launch: tuple[int, int]) -> Case:
    ordered = min(writes, reads) > (0 if in_block else 1)
    where = "another warp" if in_block else "another block"
    why = f"{_FENCES[writes]} before the flag and {_FENCES[reads]} behind it, for {where}."
    codes = () if ordered else ("TW302" if in_block else "TW303",)
    return _case(entry, writes, reads, last, why.capitalize(), *codes, launch=launch)


CASES = (
    *(_handed_over("by_fences", w, r, 0, in_block=False, launch=(2, 32))
      for w, r in ((0, 0), (0, 2), (2, 0), (1, 1), (1, 2), (2, 1), (2, 2), (3, 2), (3, 3))),
    *(_handed_over("by_fences", w, r, 1, in_block=True, launch=(1, 64))
      for w, r in itertools.product((0, 1, 2), repeat=2)),
    *(_handed_over("by_atomics", w, r, 0, in_block=False, launch=(2, 32)) for w, r in ((0, 2), (2, 0), (1, 1), (2, 2))),
    _case("by_atomics", 2, 2, 1, "The flag's atomics are of the block, so they are not morally strong.", "TW303"),
    _case("count", 1, 0, 0, "Atomics of the block on one counter of two blocks.", "TW303"),
    _case("count", 1, 1, 0, "Atomics of the block on a counter of its own."),
    _case("count", 2, 0, 0, "Atomics of the GPU on one counter."),
    _case("count", 3, 0, 0, "Atomics of the system on one counter."),
    _case("count", 4, 0, 0, "One block's atomics are of the block, and both scopes have to reach.", "TW303"),
    _case("lock", 2, 2, 0, "The lock is taken before a fence and given back behind one.", launch=(3, 32)),
    _case("lock", 0, 2, 0, "Nothing acquires what the last holder released.", "TW303", launch=(3, 32)),
    _case("lock", 2, 0, 0, "Nothing releases the addition.", "TW303", launch=(3, 32)),
    _case("lock", 1, 1, 0, "Fences of the block, and the holders are in other blocks.", "TW303", launch=(3, 32)),
    _case("last_block", 2, 2, 0, "Tickets are drawn between fences.", launch=(4, 32)),
    _case("last_block", 0, 2, 0, "A ticket may be drawn before the store is seen.", "TW303", launch=(4, 32)),
    _case("last_block", 2, 0, 0, "The drawing of the last ticket acquires nothing.", "TW303", launch=(4, 32)),
)  # fmt: skip
