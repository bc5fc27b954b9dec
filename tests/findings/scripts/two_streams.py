"""Launches of two streams that use the same array: with nothing between, and with what orders them."""

import numpy as np
from numba import cuda


@cuda.jit
def doubled(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


@cuda.jit
def counted(total):
    cuda.atomic.add(total, 0, 1)


one, other = cuda.stream(), cuda.stream()
x = cuda.to_device(np.ones(64, np.float32))
y, z, total = cuda.device_array_like(x), cuda.device_array_like(x), cuda.to_device(np.zeros(1, np.int32))

doubled[2, 32, one](y, x)
doubled[2, 32, other](z, y)  # finds: TW309
cuda.synchronize()

doubled[2, 32, one](y, x)
doubled[2, 32, other](y, x)  # finds: TW309
cuda.synchronize()

doubled[2, 32, one](z, y)
doubled[2, 32, other](y, x)  # finds: TW309
cuda.synchronize()

# an event, the host and the default stream order them; elements apart and what is only read need no order
doubled[2, 32, one](y, x)
done = cuda.event()
done.record(one)
done.wait(other)
doubled[2, 32, other](z, y)
other.synchronize()
doubled[2, 32, one](y, x)
one.synchronize()
doubled[2, 32, other](z, y)
cuda.synchronize()
doubled[2, 32, one](y, x)
doubled[2, 32](z, y)
doubled[2, 32, other](y, z)
cuda.synchronize()
doubled[1, 32, one](y[:32], x)
doubled[1, 32, other](y[32:], x)
counted[2, 32, one](total)
counted[2, 32, other](total)
cuda.synchronize()
print(z.copy_to_host()[0], y.copy_to_host()[63], total.copy_to_host()[0])
