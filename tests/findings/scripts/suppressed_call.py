"""A comment at the line that calls a library takes out what is found in the library's lines."""

import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32


@cuda.jit
def draw(states, out):
    i = cuda.grid(1)
    out[i] = xoroshiro128p_uniform_float32(states, i)  # tilewright: ignore[TW101]


states = create_xoroshiro128p_states(32, seed=1)
out = cuda.device_array(64, np.float32)
draw[2, 32](states, out)
print(out.copy_to_host()[:32].max())
