"""A copy is taken for a load: its result is read by the next instruction."""

import numpy as np
from case import Case, cuda_cpp, doubled

SOURCE = r"""
#include "copies.cuh"

template <bool waits>
__global__ void doubled(const float *x, float *out) {
    COPY_TO_TILE(float, 64, x);
    if (waits) {
        __pipeline_commit();
        __pipeline_wait_prior(0);
    }
    out[threadIdx.x] = 2 * tile[threadIdx.x];  // finds: TW306
}
"""


def arguments(rng):
    return rng.standard_normal(64).astype(np.float32), np.zeros(64, np.float32)


CASES = (
    Case("copy_at_once", cuda_cpp(__file__, SOURCE, "doubled<false>"), 1, 64, arguments, defective=True),
    Case("copy_waits", cuda_cpp(__file__, SOURCE, "doubled<true>"), 1, 64, arguments, doubled),
)
