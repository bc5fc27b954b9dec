"""A cooperative launch of more blocks than the GPU holds at once, and one of as many as it says that it holds."""

import numpy as np
from numba import cuda, float32


@cuda.jit((float32[::1],))
def waits(out):
    cuda.cg.this_grid().sync()
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 1


out = cuda.to_device(np.zeros(1024, np.float32))
try:
    waits[4000, 1024](out)  # finds: TW508
except cuda.cudadrv.driver.CudaAPIError as error:
    print(error)
(overload,) = waits.overloads.values()
waits[min(4000, overload.max_cooperative_grid_blocks(1024)), 1024](out)
print(out.copy_to_host().sum())
