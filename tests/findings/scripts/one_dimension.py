"""A kernel of two dimensions launched with one."""

import numpy as np
from numba import cuda


@cuda.jit
def double(image):
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        image[y, x] *= 2


image = np.ones((30, 50), np.int32)
d_image = cuda.to_device(image)
double[2, 32](d_image)  # finds: TW503
print(d_image.copy_to_host().sum(), "of", 2 * image.size)
