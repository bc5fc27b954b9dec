"""The last warp of a sum adds through volatile shared memory, as if its lanes ran in lockstep."""

from dataclasses import replace

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#ifndef SYNCHRONISED
#define STEP(distance) s[t] += s[t + distance]
#else
#define STEP(distance) { int sum = s[t] + s[t + distance]; __syncwarp(); s[t] = sum; __syncwarp(); }
#endif

__global__ void sum_of_warp(const int *x, int *out) {
    __shared__ volatile int s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32) {
        STEP(32);  // finds: TW311
        STEP(16);  // finds: TW311
        STEP(8);  // finds: TW311
        STEP(4);  // finds: TW311
        STEP(2);  // finds: TW311
        STEP(1);  // finds: TW311
        if (t == 0) {
            out[0] = s[0];
        }
    }
}
"""


def arguments(rng):
    return rng.integers(1, 99, 64).astype(np.int32), np.zeros(1, np.int32)


def reference(x, out):
    return {1: [x.sum()]}


LOCKSTEP, SYNCHRONISED = (cuda_cpp(__file__, SOURCE, "sum_of_warp", *o) for o in ((), ("-DSYNCHRONISED",)))
IN_LOCKSTEP = Case("sum_in_lockstep", LOCKSTEP, 1, 64, arguments, strict=True, defective=True)
CASES = (
    IN_LOCKSTEP,
    Case("sum_with_syncwarp", SYNCHRONISED, 1, 64, arguments, reference, strict=True),
    replace(IN_LOCKSTEP, name="sum_in_lockstep_not_strict", reference=reference, strict=False, defective=False),
)
