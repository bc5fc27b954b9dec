"""Warp-synchronous code: the last steps of a reduction rely on lanes in step, without syncwarp."""

import numpy as np
from case import Case
from numba import cuda, int32


def reduction(synchronised):
    @cuda.jit
    def kernel(x, out):
        s = cuda.shared.array(64, int32)
        t = cuda.threadIdx.x
        s[t] = x[t]
        cuda.syncthreads()
        if t < 32:
            if synchronised:
                half = 32
                while half > 0:
                    if t < half:
                        s[t] += s[t + half]
                    cuda.syncwarp()
                    half //= 2
            else:
                s[t] += s[t + 32]  # finds: TW304
                s[t] += s[t + 16]  # finds: TW304
                s[t] += s[t + 8]  # finds: TW304
                s[t] += s[t + 4]  # finds: TW304
                s[t] += s[t + 2]  # finds: TW304
                s[t] += s[t + 1]  # finds: TW304
        if t == 0:
            out[0] = s[0]

    return kernel


def arguments(rng):
    return rng.permutation(64).astype(np.int32), np.zeros(1, np.int32)


def reference(x, out):
    return {1: [x.sum()]}


CASES = (
    Case("lanes_in_step", reduction(False), 1, 64, arguments, defective=True),
    Case("lanes_synchronised", reduction(True), 1, 64, arguments, reference),
)
