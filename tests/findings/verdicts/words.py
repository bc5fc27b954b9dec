"""Words and objects of which only a part was written, and reads of them as a whole.

A byte that nobody wrote has no value, and a word with such a byte has none either, if it is used as a whole.
"""

from __future__ import annotations

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
struct Padded { char tag; int value; };

// Bytes of shared words are written up to `bytes` in all, and the words read.
__global__ void shared_bytes(int *out, int bytes) {
    __shared__ int words[32];
    char *at = reinterpret_cast<char *>(words);
    for (int i = threadIdx.x; i < bytes; i += 32) at[i] = i;
    __syncthreads();
    out[threadIdx.x] = words[threadIdx.x];
}

// Halves of shared words are written, `both` or the lower one.
__global__ void shared_halves(int *out, int both) {
    __shared__ int words[32];
    short *at = reinterpret_cast<short *>(words);
    at[2 * threadIdx.x] = threadIdx.x;
    if (both) at[2 * threadIdx.x + 1] = 0;
    __syncthreads();
    out[threadIdx.x] = words[threadIdx.x ^ 1];
}

// Structures with padding are written member by member and copied as they are.
__global__ void padding(int *out, int first) {
    __shared__ Padded all[32];
    all[threadIdx.x].tag = 1;
    if ((int)threadIdx.x >= first) all[threadIdx.x].value = threadIdx.x;
    __syncthreads();
    Padded copy = all[threadIdx.x ^ 1];
    out[threadIdx.x] = copy.value + copy.tag;
}

// A vector of four is read of which `count` were written.
__global__ void vector(int *out, int count) {
    __shared__ alignas(16) int words[128];
    for (int i = 0; i < count; ++i) words[4 * threadIdx.x + i] = i;
    __syncwarp();
    int4 v = reinterpret_cast<int4 *>(words)[threadIdx.x];
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}

// Elements of an array that the host only allocated; those from `first` on are written before they are added to.
__global__ void allocated(int *out, int first) {
    const int t = threadIdx.x;
    if (t >= first) out[t] = 0;
    out[t] += 1;
}

// The tail of a shared tile is cleared, or not, before a sum over all of it.
__global__ void tail(int *out, int cleared) {
    __shared__ int tile[32];
    if (threadIdx.x < 20) tile[threadIdx.x] = 1;
    else if ((int)threadIdx.x < cleared) tile[threadIdx.x] = 0;
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < 32; ++i) sum += tile[i];
    out[threadIdx.x] = sum;
}
"""

_PARTS = "an element counts as written if any of its bytes was, because structures are copied with their padding"


def _case(entry: str, value: int, why: str, *codes: str, unwritten: bool = False, known: str = "") -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return np.zeros(32, np.int32), np.int32(value)

    return Case(
        f"{entry}_{value}", cuda_cpp(__file__, SOURCE, entry), 1, 32, arguments, why=why, codes=codes,
        unwritten=(0,) if unwritten else (), known=known,
    )  # fmt: skip


CASES = (
    _case("shared_bytes", 128, "All bytes were written."),
    _case("shared_bytes", 125, "The last word lacks three bytes.", "TW202", known=_PARTS),
    _case("shared_bytes", 127, "The last word lacks one byte.", "TW202", known=_PARTS),
    _case("shared_bytes", 64, "Half of the words lack all bytes.", "TW202"),
    _case("shared_halves", 1, "Both halves were written."),
    _case("shared_halves", 0, "The upper half was not written.", "TW202", known=_PARTS),
    _case("padding", 0, "Padding is copied and not used."),
    _case("padding", 32, "A member was not written.", "TW202"),
    _case("padding", 31, "A member of the last structure was not written.", "TW202"),
    _case("vector", 4, "All four elements were written."),
    _case("vector", 3, "The fourth element was not written.", "TW202"),
    _case("vector", 1, "Three elements were not written.", "TW202"),
    _case("allocated", 0, "Every element is written before it is read.", unwritten=True),
    _case("allocated", 32, "No element was written.", "TW201", unwritten=True),
    _case("allocated", 1, "The first element was not written.", "TW201", unwritten=True),
    _case("tail", 32, "The tail is cleared."),
    _case("tail", 20, "The tail is not cleared.", "TW202"),
    _case("tail", 31, "The last word is not cleared.", "TW202"),
)
