"""Libraries whose arrays have a way of their own to be multiplied."""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import Any

from tilewright.multiply.engine.libraries import COMMON, Library, is_tensor, library_of

#: Library -> a module with `matmul(a, b, options, more, multiply)`, where `multiply` is :func:`tilewright.matmul`.
_MODULES = MappingProxyType(
    {
        "dask.array": "tilewright.multiply.engine.libraries.dask_arrays",
        "xarray": "tilewright.multiply.engine.libraries.xarray_arrays",
    }
)


def of_operands(a: Any, b: Any, on_device: bool = False) -> tuple[Any, Library | None]:
    """The module that multiplies two operands, if there is one, and the library to read them by; each may be None.

    Torch has one for products that autograd records. For arrays on a device only that one counts.

    Raises ArgumentTypeError: they belong to two.
    """
    if type(a) in COMMON and type(b) in COMMON:
        return None, None
    if is_tensor(a) or is_tensor(b):
        gradients = importlib.import_module("tilewright.multiply.engine.libraries.torch_gradients")
        if gradients.wanted(a, b):
            return gradients, None
    library = None if on_device else library_of(a, b)
    if library is not None and library.name in _MODULES:
        return importlib.import_module(_MODULES[library.name]), None
    return None, library
