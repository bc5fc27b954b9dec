"""A running sum in global memory loads by `__ldg` what the step before has stored; barriers order all accesses.

The cache of such loads is not coherent: it may hold the sums of an earlier step. The clean twins load plainly, or load
by `__ldg` only what no other thread stores.
"""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
#ifdef PLAINLY
#define LOAD(p) *(p)
#else
#define LOAD(p) __ldg(p)
#endif

__global__ void running_sums(int *x, int steps) {
    const int t = threadIdx.x;
    for (int distance = 1; distance < steps; distance *= 2) {
        const int before = t >= distance ? LOAD(x + t - distance) : 0;  // finds: TW310
        __syncthreads();
        x[t] += before;
        __syncthreads();
    }
}
"""
ONCE = r"""
__global__ void sums_with_others(int *x, const int *y) {
    const int t = threadIdx.x;
    const int own = __ldg(x + t), other = t + 1 < blockDim.x ? __ldg(y + t + 1) : 0;
    x[t] = own + other;
}
"""


def arguments(steps):
    return lambda rng: (rng.integers(1, 99, 128).astype(np.int32), steps)


def running(x, steps):
    return {0: np.cumsum(x)}


def two(rng):
    return tuple(rng.integers(1, 99, 128).astype(np.int32) for _ in "xy")


def with_others(x, y):
    return {0: x + np.append(y[1:], 0)}


READ_ONLY, PLAIN = (cuda_cpp(__file__, SOURCE, "running_sums", *options) for options in ((), ("-DPLAINLY",)))
CASES = (
    Case("sums_read_only", READ_ONLY, 1, 128, arguments(128), defective=True),
    Case("sums_plain", PLAIN, 1, 128, arguments(128), running),
    Case("sums_of_two", cuda_cpp(__file__, ONCE, "sums_with_others"), 1, 128, two, with_others),
)
