"""Monte Carlo with numba's xoroshiro128+: each thread has a state of its own, kept between launches."""

import numpy as np
from case import Case
from numba import cuda
from numba.cuda.random import xoroshiro128p_dtype, xoroshiro128p_uniform_float64

POINTS = 12


@cuda.jit
def monte_carlo(states, estimates):
    i = cuda.grid(1)
    if i < estimates.size:
        inside = 0
        for _ in range(POINTS):
            x = xoroshiro128p_uniform_float64(states, i)
            y = xoroshiro128p_uniform_float64(states, i)
            if x * x + y * y <= 1.0:
                inside += 1
        estimates[i] = 4.0 * inside / POINTS


def arguments(rng):
    states = np.zeros(70, xoroshiro128p_dtype)
    for part in ("s0", "s1"):
        states[part] = rng.integers(0, 2**64, 70, dtype=np.uint64)
    return states, np.zeros(70)


def reference(states, estimates):
    s0, s1 = states["s0"], states["s1"]

    def rotated(x, k):
        return x << np.uint64(k) | x >> np.uint64(64 - k)

    inside = np.zeros(70)
    for _ in range(POINTS):
        pair = []
        for _ in range(2):
            pair.append(((s0 + s1) >> np.uint64(11)) * 2.0**-53)
            s1 = s1 ^ s0
            s0, s1 = rotated(s0, 55) ^ s1 ^ s1 << np.uint64(14), rotated(s1, 36)
        inside += pair[0] ** 2 + pair[1] ** 2 <= 1
    return {1: 4 * inside / POINTS}


CASES = (Case("monte_carlo", monte_carlo, 3, 32, arguments, reference, rtol=1e-12, unwritten=(1,)),)
