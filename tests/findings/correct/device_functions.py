"""Device functions with tuples, several returns and a loop; the kernel's output is chosen by an index of the data's."""

import math

import numpy as np
from case import Case
from numba import cuda


@cuda.jit(device=True)
def polar(x, y):
    return math.hypot(x, y), math.atan2(y, x)


@cuda.jit(device=True)
def greatest_divisor(a, b):
    while b != 0:
        a, b = b, a % b
    return a


@cuda.jit
def device_functions(points, places, radii, angles, divisors):
    i = cuda.grid(1)
    if i < places.size:
        radius, angle = polar(points[i, 0], points[i, 1])
        at = places[i]
        radii[at] = radius
        angles[at] = angle
        divisors[at] = greatest_divisor(i, 360)


def arguments(rng):
    outputs = np.zeros(90), np.zeros(90), np.zeros(90, np.int64)
    return rng.random((90, 2)), rng.permutation(90), *outputs


def reference(points, places, radii, angles, divisors):
    order = np.argsort(places)
    x, y = points[order].T
    return {2: np.hypot(x, y), 3: np.arctan2(y, x), 4: np.gcd(order, 360)}


CASES = (Case("device_functions", device_functions, 3, 32, arguments, reference, rtol=1e-12, unwritten=(2, 3, 4)),)
