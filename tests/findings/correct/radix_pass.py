"""One pass of a radix sort: a stable split of a block's keys by four bits, ranks by ballots and shared counts."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
constexpr int THREADS = 128, WARPS = THREADS / 32, DIGITS = 16;

__global__ void radix_pass(const unsigned *keys, unsigned *sorted, int shift) {
    __shared__ unsigned counts[WARPS][DIGITS];
    __shared__ unsigned starts[DIGITS];
    const unsigned t = threadIdx.x, warp = t / 32, lane = t % 32;
    const unsigned key = keys[blockIdx.x * THREADS + t];
    const unsigned digit = key >> shift & (DIGITS - 1);

    unsigned same = 0xffffffffu;
    for (int bit = 0; bit < 4; ++bit) {
        const unsigned votes = __ballot_sync(0xffffffffu, digit >> bit & 1);
        same &= digit >> bit & 1 ? votes : ~votes;
    }
    const unsigned rank = __popc(same & ((1u << lane) - 1));
    for (unsigned i = lane; i < DIGITS; i += 32) {
        counts[warp][i] = 0;
    }
    __syncwarp();
    if (rank == 0) {
        counts[warp][digit] = __popc(same);
    }
    __syncthreads();

    if (t < DIGITS) {
        unsigned sum = 0;
        for (int w = 0; w < WARPS; ++w) {
            const unsigned count = counts[w][t];
            counts[w][t] = sum;
            sum += count;
        }
        starts[t] = sum;
    }
    __syncthreads();
    if (t == 0) {
        unsigned sum = 0;
        for (int d = 0; d < DIGITS; ++d) {
            const unsigned count = starts[d];
            starts[d] = sum;
            sum += count;
        }
    }
    __syncthreads();
    sorted[blockIdx.x * THREADS + starts[digit] + counts[warp][digit] + rank] = key;
}
"""


def arguments(rng):
    return rng.integers(0, 2**32, 256, dtype=np.uint32), np.zeros(256, np.uint32), 8


def reference(keys, out, shift):
    blocks = keys.reshape(2, 128)
    return {1: np.concatenate([b[np.argsort(b >> shift & 15, kind="stable")] for b in blocks])}


KERNEL = cuda_cpp(__file__, SOURCE, "radix_pass")
CASES = (Case("radix_pass", KERNEL, 2, 128, arguments, reference, unwritten=(1,)),)
