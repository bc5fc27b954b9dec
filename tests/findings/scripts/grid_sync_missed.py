"""A barrier of the grid that one block leaves out, so that the others wait for ever; and all of them at it."""

import numpy as np
from numba import cuda
from numba.cuda import CudaSupportError, cudadrv


@cuda.jit
def missed(out):
    if cuda.blockIdx.x != 2:
        cuda.cg.this_grid().sync()  # finds: TW401
    out[cuda.grid(1)] = 1


@cuda.jit
def met(out):
    cuda.cg.this_grid().sync()
    if cuda.blockIdx.x != 2:
        out[cuda.grid(1)] = 1


out = cuda.to_device(np.zeros(4 * 64, np.float32))
met[4, 64](out)
print(out.copy_to_host().sum())
try:
    missed[4, 64](out)  # a GPU does no more work after it
except (cudadrv.driver.CudaAPIError, CudaSupportError) as error:
    print(error)
