"""One step of the canonical product for Python kernels: `a * b + c`, rounded once."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types


@functools.lru_cache(maxsize=16)
def multiply_add(dtype: str) -> Callable[..., Any]:
    """The device function for one dtype.

    Floats use an explicit fused multiply-add, since a compiler may contract `a * b + c` or not. Integers wrap:
    Numba widens int32 to int64 in the sum, and the conversion back keeps the low bits.
    """
    element = getattr(types, dtype)

    def fused(a: Any, b: Any, c: Any) -> Any:
        return cuda.fma(a, b, c)

    def wrapped(a: Any, b: Any, c: Any) -> Any:
        return element(a * b + c)

    step: Callable[..., Any] = cuda.jit(fused if np.dtype(dtype).kind == "f" else wrapped, device=True)
    return step
