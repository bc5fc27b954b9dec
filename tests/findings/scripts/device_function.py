"""A device function of the program has a defect: the finding is at its line, not at the call; guarded, it has none."""

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def right_of(x, i):
    return x[i + 1]  # finds: TW101


@cuda.jit(device=True)
def right_of_or_last(x, i):
    return x[min(i + 1, x.size - 1)]


@cuda.jit
def differences(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = right_of(x, i) - x[i]


@cuda.jit
def differences_or_zero(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = right_of_or_last(x, i) - x[i]


x = cuda.to_device(np.arange(64, dtype=np.float32))
out = cuda.device_array_like(x)
differences_or_zero[2, 32](x, out)
assert (out.copy_to_host() == [*[1] * 63, 0]).all()
differences[2, 32](x, out)
print(out.copy_to_host()[:-1].sum())
