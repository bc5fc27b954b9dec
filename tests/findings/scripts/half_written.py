"""A device array is written in its first half only, and another kernel adds up all of it."""

import numpy as np
from numba import cuda


@cuda.jit
def fill(out, count):
    i = cuda.grid(1)
    if i < count:
        out[i] = i


@cuda.jit
def add_up(x, total):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(total, 0, x[i])  # finds: TW201


values = cuda.device_array(1000, np.int64)
total = cuda.to_device(np.zeros(1, np.int64))
fill[8, 128](values, 500)
add_up[8, 128](values, total)
print(total.copy_to_host()[0])
