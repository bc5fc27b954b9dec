"""A long array is done in parts, one launch each, and the threads of one part reach into the next."""

import numpy as np
from numba import cuda


@cuda.jit
def twice(x, out):
    i = cuda.grid(1)
    out[i] = x[i] + x[i]  # finds: TW107


@cuda.jit
def twice_guarded(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + x[i]


@cuda.jit
def twice_of_all(x, out):
    i = cuda.grid(1)
    out[i] = x[i] + x[i]


@cuda.jit("void(int64[::1], int64[::1])")
def twice_declared(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + x[i]


x = np.arange(4000)
d_x = cuda.to_device(x)
d_out = cuda.to_device(np.zeros_like(x))
for kernel in (twice, twice_guarded, twice_declared):
    for start in range(0, 4000, 1000):
        part = slice(start, start + 1000)
        kernel[8, 128](d_x[part], d_out[part])
    assert (d_out.copy_to_host() == 2 * x).all()
for start in range(0, 4000, 1000):
    part = slice(start, start + 1000)
    twice_of_all[10, 100](d_x[part], d_out[part])  # as many threads as elements
print(d_out.copy_to_host()[-1])
