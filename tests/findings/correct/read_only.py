"""Restricted pointers and __ldg: loads through the read-only cache, some of them of bytes and of pairs."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void read_only(const float2 *__restrict__ points, const signed char *__restrict__ steps,
                          float *__restrict__ out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float2 here = __ldg(&points[i]), there = points[(i + __ldg(&steps[i])) % n];
        out[i] = (there.x - here.x) * (there.y + here.y);
    }
}
"""


def arguments(rng):
    points = rng.integers(-99, 99, (75, 2)).astype(np.float32)
    return points, rng.integers(0, 100, 75).astype(np.int8), np.zeros(75, np.float32), 75


def reference(points, steps, out, n):
    there = points[(np.arange(75) + steps) % 75]
    return {2: (there[:, 0] - points[:, 0]) * (there[:, 1] + points[:, 1])}


KERNEL = cuda_cpp(__file__, SOURCE, "read_only")
CASES = (Case("read_only", KERNEL, 3, 32, arguments, reference, unwritten=(2,)),)
