"""A running sum in global memory loads by `__ldg` what the step before has stored; barriers order all accesses.

The cache of such loads is not coherent: it may hold the sums of an earlier step. The clean twins load plainly, or load
by `__ldg` only what no thread has stored yet.
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
__global__ void sums_of_neighbours(int *x, int steps) {
    const int t = threadIdx.x;
    const int own = __ldg(x + t), next = t + 1 < blockDim.x ? __ldg(x + t + 1) : 0;
    __syncthreads();
    x[t] = own + next;
}
"""


def arguments(steps):
    return lambda rng: (rng.integers(1, 99, 128).astype(np.int32), steps)


def running(x, steps):
    return {0: np.cumsum(x)}


def neighbours(x, steps):
    return {0: x + np.append(x[1:], 0)}


READ_ONLY, PLAIN = (cuda_cpp(__file__, SOURCE, "running_sums", *options) for options in ((), ("-DPLAINLY",)))
CASES = (
    Case("sums_read_only", READ_ONLY, 1, 128, arguments(128), defective=True),
    Case("sums_plain", PLAIN, 1, 128, arguments(128), running),
    Case("sums_read_only_once", cuda_cpp(__file__, ONCE, "sums_of_neighbours"), 1, 128, arguments(0), neighbours),
)
