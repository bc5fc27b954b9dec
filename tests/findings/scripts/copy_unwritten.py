"""A device array of which kernels write a part goes to the host as a whole; then the part alone does."""

import numpy as np
from numba import cuda


@cuda.jit
def squares(out, count):
    i = cuda.grid(1)
    if i < count:
        out[i] = i * i


whole = cuda.device_array(100, np.int32)
squares[2, 32](whole, 50)
print(whole.copy_to_host()[7])  # finds: TW205
print(whole[:50].copy_to_host()[7])

given = np.zeros(100, np.int32)
squares[4, 32](cuda.Out(given), 50)  # finds: TW205
squares[4, 32](cuda.Out(given), 100)
squares[4, 32](given, 50)
