"""Blocks count behind a lock whose fences are missing; volatile orders nothing."""

from dataclasses import replace

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#ifndef FENCED
#define FENCE
#else
#define FENCE __threadfence()
#endif

__device__ int gate;

__global__ void count(const int *x, volatile int *total) {
    if (threadIdx.x == 0) {
        while (atomicCAS(&gate, 0, 1) != 0) {
        }
        FENCE;
        total[0] = total[0] + x[blockIdx.x];  // finds: TW313
        FENCE;
        atomicExch(&gate, 0);
    }
}
"""


def arguments(rng):
    return rng.integers(1, 99, 2).astype(np.int32), np.zeros(1, np.int32)


def reference(x, total):
    return {1: [x.sum()]}


BARE, FENCED = (cuda_cpp(__file__, SOURCE, "count", *o) for o in ((), ("-DFENCED",)))
UNORDERED = Case("count_without_fences", BARE, 2, 32, arguments, strict=True, defective=True)
CASES = (
    UNORDERED,
    Case("count_with_fences", FENCED, 2, 32, arguments, reference, strict=True),
    replace(UNORDERED, name="count_without_fences_not_strict", reference=reference, strict=False, defective=False),
)
