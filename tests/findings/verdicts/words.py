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

// The same in global memory: `bytes` bytes of each word are written, and words are added up.
__global__ void global_bytes(int *out, int bytes) {
    const int t = threadIdx.x;
    char *at = reinterpret_cast<char *>(&out[t]);
    for (int i = 0; i < bytes; ++i) at[i] = i;
    out[t] += 1;
}

// Structures of a word and a byte are copied as they are, from shared memory and from global memory.
struct Tailed { int value; char tag; };
__global__ void copied(Tailed *out, int tagged) {
    __shared__ Tailed all[32];
    const int t = threadIdx.x;
    all[t].value = t;
    if (tagged) all[t].tag = 1;
    __syncthreads();
    out[t] = all[t ^ 1];
    __syncthreads();
    all[t] = out[t ^ 1];
    __syncthreads();
    out[t].value = all[t].value + all[t].tag;
}

// Two of four bytes are written, and read as one word of which the others are cut off, or not.
template <bool whole> __device__ void cut_of(int *out) {
    __shared__ alignas(4) unsigned char bytes[128];
    const int t = threadIdx.x;
    bytes[4 * t] = t;
    bytes[4 * t + 1] = 1;
    __syncthreads();
    const unsigned word = *reinterpret_cast<unsigned *>(&bytes[4 * (t ^ 1)]);
    out[t] = whole ? word * 3 >> 8 : (word & 255) + (word >> 8 & 255);
}
__global__ void cut(int *out, int) { cut_of<false>(out); }
__global__ void uncut(int *out, int) { cut_of<true>(out); }

// A structure whose first member alone is read of the eight bytes.
__global__ void wide(int *out, int halves) {
    __shared__ alignas(8) short tile[128];
    const int t = threadIdx.x;
    for (int i = 0; i < halves; ++i) tile[4 * t + i] = i;
    __syncthreads();
    const int2 both = *reinterpret_cast<int2 *>(&tile[4 * (t ^ 1)]);
    out[t] = both.x * 3 + both.y;
}

// A register is an index of which the upper half was not written.
__global__ void index(int *out, int both) {
    __shared__ int at[32];
    const int t = threadIdx.x;
    short *half = reinterpret_cast<short *>(at);
    half[2 * t] = t ^ 3;
    if (both) half[2 * t + 1] = 0;
    __syncthreads();
    out[at[t] & 31] = 1;
    atomicAdd(&at[t], 1);
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


def _case(entry: str, value: int, why: str, *codes: str, unwritten: bool = False) -> Case:
    def arguments(rng: np.random.Generator) -> tuple[object, ...]:
        return np.zeros(64, np.int32), np.int32(value)

    return Case(
        f"{entry}_{value}", cuda_cpp(__file__, SOURCE, entry), 1, 32, arguments, why=why, codes=codes,
        unwritten=(0,) if unwritten else (),
    )  # fmt: skip


CASES = (
    _case("shared_bytes", 128, "All bytes were written."),
    _case("shared_bytes", 125, "The last word lacks three bytes.", "TW202"),
    _case("shared_bytes", 127, "The last word lacks one byte.", "TW202"),
    _case("shared_bytes", 64, "Half of the words lack all bytes.", "TW202"),
    _case("shared_halves", 1, "Both halves were written."),
    _case("shared_halves", 0, "The upper half was not written.", "TW202"),
    _case("global_bytes", 4, "All bytes were written.", unwritten=True),
    _case("global_bytes", 1, "Three bytes of each word were not written.", "TW201", unwritten=True),
    _case("global_bytes", 3, "The last byte of each word was not written.", "TW201", unwritten=True),
    _case("copied", 1, "Padding is copied and not used.", unwritten=True),
    _case("copied", 0, "A member was not written.", "TW202", unwritten=True),
    _case("cut", 0, "Only the written bytes are used."),
    _case("uncut", 0, "The two upper bytes were not written.", "TW202"),
    _case("wide", 4, "Both words were written."),
    _case("wide", 3, "The upper half of the second word was not written.", "TW202"),
    _case("wide", 1, "The upper half of the first word was not written, nor the second.", "TW202"),
    _case("index", 1, "Both halves were written."),
    _case("index", 0, "The upper half was not written that an addition carries into.", "TW202"),
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
