"""Stencils leave the edges out; grids that are too small for the rest of the array leave out more."""

import numpy as np
from numba import cuda, float32


@cuda.jit
def blur(src, dst):
    x, y = cuda.grid(2)
    rows, columns = src.shape
    if 0 < y < rows - 1 and 0 < x < columns - 1:
        dst[y, x] = (src[y, x - 1] + src[y, x + 1] + src[y - 1, x] + src[y + 1, x]) * float32(0.25)


@cuda.jit
def second_difference(src, dst):
    i = cuda.grid(1)
    if 2 <= i < src.size - 2:
        dst[i] = src[i - 2] - src[i] - src[i] + src[i + 2]


@cuda.jit
def fourth_from_left(src, dst):
    i = cuda.grid(1)
    if 1 <= i < src.size - 3:
        dst[i] = src[i - 1] + src[i + 3]


rows, columns = 60, 77
image = np.ones((rows, columns), np.float32)
first, second = cuda.to_device(image), cuda.to_device(image)
blur[(3, 8), (32, 8)](first, second)
blur[(3, 8), (32, 8)](second, first)
third, fourth = cuda.to_device(image), cuda.to_device(image)
blur[(2, 10), (32, 8)](third, fourth)  # the grid of the transposed image  # finds: TW501
line = cuda.to_device(np.ones(1000, np.float32))
second_difference[1000 // 128, 128](line, cuda.to_device(np.zeros(1000, np.float32)))  # finds: TW501
second_difference[4, 128](line, cuda.to_device(np.zeros(1000, np.float32)))  # half is missing  # finds: TW501
second_difference[8, 128](line, cuda.to_device(np.zeros(1000, np.float32)))
short = cuda.to_device(np.ones(131, np.float32))
fourth_from_left[1, 128](short, cuda.to_device(np.zeros(131, np.float32)))  # its guard ends where the grid does
print(first.copy_to_host().sum(), fourth.copy_to_host().sum())
