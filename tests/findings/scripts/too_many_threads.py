"""A block of 2,048 threads; the launch is refused, as a GPU refuses it, and the script goes on."""

import numpy as np
from numba import cuda


@cuda.jit
def increment(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


x = cuda.to_device(np.zeros(2048, np.int32))
try:
    increment[1, 2048](x)  # finds: TW502
except Exception as error:  # what a driver raises has a name of its own in each binding
    print(f"refused: {error}")
increment[2, 1024](x)
print(x.copy_to_host().sum(), "of", x.size)
