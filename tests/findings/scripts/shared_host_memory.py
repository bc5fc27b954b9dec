"""Host arrays of a launch are views of one memory: each is copied to the device and back, and the last copy stays."""

import numpy as np
from numba import cuda


@cuda.jit
def shifted(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 1


@cuda.jit
def shifted_from(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 1


image = np.zeros((8, 8), np.float32)
shifted[1, 64](image.reshape(-1), image.reshape(-1))  # finds: TW510
print("lost:", image.sum())
shifted_from[1, 64](image.reshape(-1), image.reshape(-1))  # what is written is copied back last
print("kept:", image.sum())
shifted[1, 32](image[:4].reshape(-1), cuda.In(image.reshape(-1)))  # what is not copied back overwrites nothing
shifted[1, 32](image[:4].reshape(-1), image[4:].reshape(-1))  # these share nothing
print("kept:", image.sum())
flat = image.reshape(-1)
shifted[1, 32](flat[:32], flat)  # finds: TW510
d_image = cuda.to_device(flat)
shifted[1, 32](d_image[:32], d_image)
print("on the device it is one memory:", d_image.copy_to_host().sum())
