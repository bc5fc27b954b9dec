"""Arrays of other libraries as operands: their NumPy arrays, and the type of the product.

A library is a row of `LIBRARIES`. Asking whether a value belongs to a library does not import it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError

Array = npt.NDArray[Any]
#: Turns the product into an array of the operands' library.
Wrap = Callable[[Array], Any]


class Tensor(Protocol):
    """The type of torch's tensors and JAX's arrays for type checkers, installed or not."""

    @property
    def device(self) -> Any:
        """The device that holds it."""


class Frame(Protocol):
    """The type of pandas' frames and series for type checkers."""

    def to_numpy(self) -> Any:
        """Its values, without labels."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library with arrays of its own."""

    name: str  #: The module that is loaded if such arrays exist.
    types: tuple[str, ...]  #: Names of their classes in that module.
    #: Module with `array(value, name)`, which returns one operand's NumPy array, and `operands(a, b)`, which returns
    #: both and the function that wraps the product. One of the two may be an array of no library.
    adapter: str
    #: Whether the adapter multiplies: it has `matmul(a, b, options, more)` in place of `operands`.
    multiplies: bool = False

    def owns(self, value: Any) -> bool:
        """Whether a value is an array of this library."""
        module = sys.modules.get(self.name)
        return module is not None and isinstance(value, tuple(getattr(module, x, ()) for x in self.types))

    def array(self, value: Any, name: str) -> Array:
        """The NumPy array of one of its arrays, without a copy if possible.

        Raises ArgumentTypeError: the array is on a device, or NumPy has no such array.
        """
        found: Array = importlib.import_module(self.adapter).array(value, name)
        return found

    def operands(self, a: Any, b: Any) -> tuple[Array, Array, Wrap]:
        """The NumPy arrays of two operands, and the function that wraps their product.

        Raises ArgumentTypeError, ArgumentValueError: as :meth:`array`, or the operands' labels do not fit.
        """
        found: tuple[Array, Array, Wrap] = importlib.import_module(self.adapter).operands(a, b)
        return found


#: Types of most operands, which belong to no library.
_COMMON = (np.ndarray, list, tuple, float, int)

LIBRARIES = (
    Library("torch", ("Tensor",), "tilewright.engine.libraries.torch_tensors"),
    Library("jax", ("Array",), "tilewright.engine.libraries.jax_arrays"),
    Library("pandas", ("DataFrame", "Series", "Index"), "tilewright.engine.libraries.pandas_frames"),
    Library("dask.array", ("Array",), "tilewright.engine.libraries.dask_arrays", multiplies=True),
    Library("xarray", ("DataArray",), "tilewright.engine.libraries.xarray_arrays", multiplies=True),
)


def library_of(*values: Any) -> Library | None:
    """The library that arrays belong to; None if all are NumPy's, sequences, or read by a protocol.

    Raises ArgumentTypeError: they belong to two.
    """
    others = [x for x in values if type(x) not in _COMMON]
    if not others:
        return None
    found = [row for row in LIBRARIES if any(row.owns(x) for x in others)]
    if len(found) > 1:
        raise ArgumentTypeError(
            f"`a` and `b` must be arrays of one library (got one of {found[0].name} and one of {found[1].name}); "
            "convert one"
        )
    return found[0] if found else None


def is_tensor(value: Any) -> bool:
    """Whether a value is torch's, the only library whose arrays can be written."""
    return LIBRARIES[0].owns(value)


def of_operands(a: Any, b: Any, on_device: bool = False) -> tuple[Any, Library | None]:
    """The adapter that multiplies two operands, if there is one, and the library to read them by; each may be None.

    Torch has an adapter for products that autograd records. For arrays on a device only that adapter counts.

    Raises ArgumentTypeError: they belong to two.
    """
    if type(a) in _COMMON and type(b) in _COMMON:
        return None, None
    if is_tensor(a) or is_tensor(b):
        gradients = importlib.import_module("tilewright.engine.libraries.torch_gradients")
        if gradients.wanted(a, b):
            return gradients, None
    library = None if on_device else library_of(a, b)
    if library is not None and library.multiplies:
        return importlib.import_module(library.adapter), None
    return None, library
