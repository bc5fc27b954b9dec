"""Launches whose arguments a package passes by their own bytes, without asking for the kernel's types.

Source: CuPy, "User-Defined Kernels" (kernel arguments); `cuda.core`, `launch`: a Python int is 8 bytes long.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tilewright.frontends.this_process import ThisProcess
from tilewright.simulate.device.installed_gpu import installed_gpu
from tilewright.simulate.observer import Passed, PassedArguments
from tilewright.simulate.programs.array_arguments import array_shape

#: Bytes of an address, and of what stands for one: a buffer, a texture.
_ADDRESS = 8


def passing(arguments: Iterable[Any], source: str = "") -> AbstractContextManager[None]:
    """Launches in the body pass these arguments, to a kernel of this source; no effect without a simulated GPU."""
    gpu = installed_gpu()
    if gpu is None or not isinstance(gpu.host, ThisProcess):
        return nullcontext()
    return gpu.host.passing(PassedArguments(tuple(map(passed, arguments)), source))


def passed(value: Any) -> Passed:
    """An argument as it is passed.

    >>> passed(2.0).dtype, passed(np.float32(2)).bytes, passed(ctypes.c_int(3)).value
    (dtype('float64'), 4, 3)
    """
    if hasattr(value, "__cuda_array_interface__"):
        array = array_shape(value)
        return Passed(_ADDRESS, array.dtype if array else None, array=array)
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return Passed(value.nbytes, value.dtype, value.item())
    if isinstance(value, np.ndarray | np.generic):  # a structure by value
        return Passed(value.nbytes)
    if isinstance(value, bool | int | float | complex):
        made = np.asarray(value, None if isinstance(value, bool) or not isinstance(value, int) else _integer(value))
        return Passed(made.nbytes, made.dtype, value)
    if isinstance(value, ctypes._SimpleCData) and isinstance(value.value, bool | int | float):
        return Passed(ctypes.sizeof(value), np.dtype(type(value)), value.value)
    if isinstance(value, ctypes.Structure | ctypes.Array | ctypes._SimpleCData):
        return Passed(ctypes.sizeof(value))
    return Passed(_ADDRESS)


def _integer(value: int) -> np.dtype[Any]:
    return np.dtype(np.int64 if value < 2**63 else np.uint64)
