"""Two arrays of different dtypes, side by side in dynamic shared memory."""

import numpy as np
from case import Case
from numba import cuda, float32, int16


@cuda.jit
def dynamic_shared(x, labels, out):
    n = cuda.blockDim.x
    floats = cuda.shared.array(0, float32)[:n]
    shorts = cuda.shared.array(0, int16)[2 * n : 3 * n]
    t = cuda.threadIdx.x
    floats[t] = x[t]
    shorts[t] = labels[t]
    cuda.syncthreads()
    total = float32(0)
    for other in range(n):
        if shorts[other] == shorts[t]:
            total += floats[other]
    out[t] = total


def arguments(rng):
    return (
        rng.integers(-99, 99, 80).astype(np.float32),
        rng.integers(0, 6, 80).astype(np.int16),
        np.zeros(80, np.float32),
    )


def reference(x, labels, out):
    return {2: (labels[:, None] == labels) @ x}


CASES = (Case("dynamic_shared", dynamic_shared, 1, 80, arguments, reference, shared_bytes=480, unwritten=(2,)),)
