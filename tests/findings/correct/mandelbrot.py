"""The Mandelbrot set: a loop that each thread leaves at another time."""

import numpy as np
from case import Case
from numba import cuda

MOST = 30


@cuda.jit(device=True)
def escapes_after(c):
    z = 0j
    for count in range(MOST):
        z = z * z + c
        if z.real * z.real + z.imag * z.imag >= 4:
            return count
    return MOST


@cuda.jit
def mandelbrot(left, top, step, image):
    for row in range(cuda.grid(2)[1], image.shape[0], cuda.gridsize(2)[1]):
        for column in range(cuda.grid(2)[0], image.shape[1], cuda.gridsize(2)[0]):
            image[row, column] = escapes_after(complex(left + column * step, top + row * step))


def arguments(rng):
    return -2.0, -1.1, 0.113, np.zeros((20, 25), np.uint8)


def reference(left, top, step, image):
    c = left + step * np.arange(25) + 1j * (top + step * np.arange(20)[:, None])
    z, counts = np.zeros_like(c), np.full(c.shape, MOST)
    for count in range(MOST):
        z = z * z + c
        counts[(counts == MOST) & (abs(z) >= 2)] = count
        z[counts < MOST] = 0
    return {3: counts}


CASES = (Case("mandelbrot", mandelbrot, (1, 2), (8, 4), arguments, reference, unwritten=(3,)),)
