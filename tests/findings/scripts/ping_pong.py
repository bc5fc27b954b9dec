"""Two buffers in turn: what one launch writes, the next reads, in one stream and in two that wait for each other."""

import numpy as np
from numba import cuda


@cuda.jit
def smooth(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = (x[i - 1 if i > 0 else 0] + 2 * x[i] + x[min(i + 1, x.size - 1)]) // 4


host = np.random.default_rng(0).integers(0, 10**6, 1000)
here = cuda.to_device(host)
there = cuda.device_array_like(here)
for _ in range(3):
    smooth[8, 128](here, there)
    here, there = there, here

first, second = cuda.stream(), cuda.stream()
smooth[8, 128, first](here, there)
done = cuda.event()
done.record(first)
done.wait(second)
smooth[8, 128, second](there, here)
second.synchronize()

for _ in range(5):
    padded = np.pad(host, 1, "edge")
    host = (padded[:-2] + 2 * host + padded[2:]) // 4
assert (here.copy_to_host() == host).all()
print("the buffers agree with NumPy")
