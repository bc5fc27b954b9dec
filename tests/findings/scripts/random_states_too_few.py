"""Random numbers with a state for each thread of the first block only: numba-cuda's functions read and write past them.

What these functions do is reported where the program calls them, in its own device function too.
"""

import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float32, xoroshiro128p_uniform_float32


@cuda.jit(device=True)
def throw(states, i):
    return xoroshiro128p_uniform_float32(states, i)  # finds: TW101


@cuda.jit
def darts(states, hits):
    i = cuda.grid(1)
    x = throw(states, i)
    y = xoroshiro128p_normal_float32(states, i)  # finds: TW101
    hits[i] = x * x + y * y < 1


threads, blocks = 64, 2
states = create_xoroshiro128p_states(threads, seed=1)
hits = cuda.device_array(threads * blocks, np.int32)
darts[blocks, threads](states, hits)
print(hits.copy_to_host()[:threads].mean())
