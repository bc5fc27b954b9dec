"""The host uses memory that it shares with the device before it has waited for the stream that does, and after."""

import numpy as np
from numba import cuda


@cuda.jit
def doubled(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


stream = cuda.stream()
x, out = cuda.mapped_array(64, np.float32), cuda.mapped_array(64, np.float32)
x[:] = 1
doubled[2, 32, stream](out, x)
print(out[7])  # finds: TW305
print(x[7], out.shape, out.nbytes, "may be had at once")
stream.synchronize()
print(out.sum())

doubled[2, 32](out, x)
x[:] = 3  # finds: TW305
cuda.synchronize()
x[:] = 3
print(out.sum())

pinned = cuda.pinned_array(64, np.float32)
d_out = cuda.to_device(np.arange(64, dtype=np.float32))
d_out.copy_to_host(pinned, stream=stream)
total = float(pinned.sum())  # finds: TW305
stream.synchronize()
print(total, pinned.sum())

cuda.to_device(pinned, stream=stream)
pinned += 1  # finds: TW305
stream.synchronize()
pinned += 1

with stream.auto_synchronize():
    doubled[2, 32, stream](out, x)
print(out.sum())
