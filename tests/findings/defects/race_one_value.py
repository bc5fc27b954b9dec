"""Many threads say that there is a large number: of a block by its shared memory, and for the grid in global memory.

All write the same, so no other value can result on today's GPUs. In the clean twin each place has one writer at a time.
"""

from dataclasses import replace

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void any_large(const int *x, int *out) {
    __shared__ int found;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        found = 0;
    }
    __syncthreads();
#ifdef ONE_WRITER
    const int several = __syncthreads_or(x[i] > 50);
    if (threadIdx.x == 0) {
        found = several;
    }
#else
    if (x[i] > 50) {
        found = 1;  // finds: TW312
    }
#endif
    __syncthreads();
#ifdef ONE_WRITER
    if (threadIdx.x == 0 && found) {
        atomicExch(out, 1);
    }
#else
    if (found) {
        *out = 1;  // finds: TW312
    }
#endif
}
"""


def arguments(rng):
    return np.arange(128, dtype=np.int32), np.zeros(1, np.int32)


def reference(x, out):
    return {1: [1]}


SEVERAL, ONE = (cuda_cpp(__file__, SOURCE, "any_large", *o) for o in ((), ("-DONE_WRITER",)))
BY_SEVERAL = Case("large_by_several", SEVERAL, 2, 64, arguments, strict=True, defective=True)
CASES = (
    BY_SEVERAL,
    Case("large_by_one", ONE, 2, 64, arguments, reference, strict=True),
    replace(BY_SEVERAL, name="large_by_several_not_strict", reference=reference, strict=False, defective=False),
)
