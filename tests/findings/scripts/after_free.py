"""An array is used through an alias after it was freed: the alias does not keep the memory.

What is read is the end of a long array, so that it is not what the next launch puts in the place of its beginning.
"""

import gc

import numpy as np
from numba import cuda


class Alias:
    """What another library sees of a device array: an address."""

    def __init__(self, array):
        self.__cuda_array_interface__ = dict(array.__cuda_array_interface__)


@cuda.jit
def last_ones(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[x.size - 1 - i]  # finds: TW105


d_x = cuda.to_device(np.arange(100_000, dtype=np.int64))
d_out = cuda.to_device(np.zeros(1000, np.int64))
alias = cuda.as_cuda_array(Alias(d_x))
last_ones[10, 100](d_x, d_out)
print(d_out.copy_to_host().sum())

del d_x
gc.collect()  # frames of the first call hold it, in a cycle
cuda.current_context().memory_manager.deallocations.clear()
last_ones[10, 100](alias, d_out)
print(d_out.copy_to_host().sum())
