"""Adding two vectors, with as many blocks as fit instead of as many as are needed."""

import numpy as np
from numba import cuda


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


n = 1000
threads = 128
blocks = n // threads

x = np.arange(n, dtype=np.float32)
y = np.ones(n, np.float32)
out = cuda.device_array(n, np.float32)
add[blocks, threads](cuda.to_device(x), cuda.to_device(y), out)  # finds: TW501
print(out.copy_to_host()[:5])
