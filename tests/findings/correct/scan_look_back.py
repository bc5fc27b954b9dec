"""Single-pass scan with decoupled look-back: a block waits for the prefix that the block before it has published."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
constexpr int NOTHING = 0, OWN = 1, WHOLE = 2;

__global__ void scan_look_back(const int *x, int *out, unsigned *next, volatile int *state, volatile int *own,
                               volatile int *whole) {
    __shared__ unsigned tile;
    __shared__ int before;
    __shared__ int scan[2][64];
    const int t = threadIdx.x;
    if (t == 0) {
        tile = atomicAdd(next, 1u);
    }
    __syncthreads();
    const int i = tile * 64 + t;

    int from = 0;
    scan[0][t] = x[i];
    __syncthreads();
    for (int shift = 1; shift < 64; shift *= 2, from = 1 - from) {
        scan[1 - from][t] = scan[from][t] + (t >= shift ? scan[from][t - shift] : 0);
        __syncthreads();
    }
    const int value = scan[from][t];

    if (t == 63) {
        own[tile] = value;
        __threadfence();
        state[tile] = OWN;
        int sum = 0;
        for (int left = int(tile) - 1; left >= 0; --left) {
            int seen;
            do {
                seen = state[left];
            } while (seen == NOTHING);
            __threadfence();
            if (seen == WHOLE) {
                sum += whole[left];
                break;
            }
            sum += own[left];
        }
        whole[tile] = sum + value;
        __threadfence();
        state[tile] = WHOLE;
        before = sum;
    }
    __syncthreads();
    out[i] = before + value;
}
"""


def arguments(rng):
    blocks = (np.zeros(7, np.int32) for _ in range(3))
    return rng.integers(-50, 50, 7 * 64).astype(np.int32), np.zeros(7 * 64, np.int32), np.zeros(1, np.uint32), *blocks


def reference(x, out, tickets, state, own, whole):
    return {1: np.cumsum(x), 3: np.full(7, 2), 5: np.cumsum(x)[63::64]}


KERNEL = cuda_cpp(__file__, SOURCE, "scan_look_back")
CASES = (Case("scan_look_back", KERNEL, 7, 64, arguments, reference, unwritten=(1, 4, 5)),)
