"""A minimum whose identity is infinity: what is stored between barriers may be infinite though no input is."""

import numpy as np
from case import Case
from numba import cuda, float32

BLOCK = 64
INFINITY = np.float32(np.inf)


@cuda.jit
def smallest_distance(points, query, smallest):
    best = cuda.shared.array(BLOCK, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    best[t] = INFINITY
    if i < points.shape[0]:
        dx = points[i, 0] - query[0]
        dy = points[i, 1] - query[1]
        best[t] = dx * dx + dy * dy
    cuda.syncthreads()
    half = BLOCK // 2
    while half > 0:
        if t < half:
            best[t] = min(best[t], best[t + half])
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.min(smallest, 0, best[0])


def arguments(rng):
    points = rng.integers(-99, 99, (150, 2)).astype(np.float32)
    return points, np.array([3, 4], np.float32), np.array([1e9], np.float32)


def reference(points, query, smallest):
    return {2: [((points - query) ** 2).sum(axis=1).min()]}


CASES = (Case("smallest_distance", smallest_distance, 3, BLOCK, arguments, reference),)
