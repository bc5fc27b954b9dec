"""A vote by lanes that its mask does not name."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void not_named(const int *x, unsigned *out) {
    const int t = threadIdx.x;
    out[t] = __ballot_sync(0x0000ffffu, x[t] > 0);  // finds: TW404
}

__global__ void named(const int *x, unsigned *out) {
    const int t = threadIdx.x;
    const unsigned half = t % 32 < 16 ? 0x0000ffffu : 0xffff0000u;
    out[t] = __ballot_sync(half, x[t] > 0);
}
"""


def arguments(rng):
    return rng.integers(-9, 9, 32).astype(np.int32), np.zeros(32, np.uint32)


def reference(x, out):
    bits = np.where(x > 0, 1 << np.arange(32), 0)
    return {1: np.repeat(bits.reshape(2, 16).sum(axis=1), 16)}


CASES = (
    Case("caller_not_named", cuda_cpp(__file__, SOURCE, "not_named"), 1, 32, arguments, defective=True),
    Case("caller_named", cuda_cpp(__file__, SOURCE, "named"), 1, 32, arguments, reference),
)
