"""An overrun where the arrays of an earlier launch lay: it is one of the arrays that it runs past."""

import numpy as np
from numba import cuda


@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    c[i] = a[i] + b[i]  # finds: TW101


for n in (128, 100):
    ones = [np.ones(n, np.float32) for _ in range(3)]
    add[4, 32](*ones)
    print(ones[2].sum())
