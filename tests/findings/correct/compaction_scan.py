"""Keep elements in their order: ballots give places in a warp, a scan of the warps' counts places in the block."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void compaction_scan(const int *x, int n, int *kept, int *count) {
    __shared__ int warp_counts[4];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    int first = 0;
    for (int start = 0; start < n; start += blockDim.x) {
        const int value = start + t < n ? x[start + t] : 0;
        const unsigned votes = __ballot_sync(0xffffffffu, value > 0);
        if (lane == 0) {
            warp_counts[warp] = __popc(votes);
        }
        __syncthreads();
        int before = first;
        for (int w = 0; w < 4; ++w) {
            before += w < warp ? warp_counts[w] : 0;
            first += warp_counts[w];
        }
        if (value > 0) {
            kept[before + __popc(votes & ((1u << lane) - 1))] = value;
        }
        __syncthreads();
    }
    if (t == 0) {
        *count = first;
    }
}
"""


def arguments(rng):
    return rng.integers(-100, 100, 450).astype(np.int32), 450, np.zeros(450, np.int32), np.zeros(1, np.int32)


def reference(x, n, kept, count):
    chosen = x[x > 0]
    return {2: np.pad(chosen, (0, 450 - chosen.size)), 3: [chosen.size]}


KERNEL = cuda_cpp(__file__, SOURCE, "compaction_scan")
CASES = (Case("compaction_scan", KERNEL, 1, 128, arguments, reference, unwritten=(2,)),)
