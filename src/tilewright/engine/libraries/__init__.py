"""Arrays of other libraries as operands: what each is as a NumPy array, and what the product becomes.

A library is a row of `LIBRARIES`. None is imported to find out whether a value is its own.
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
#: Turns the product into what the operands are.
Wrap = Callable[[Array], Any]


class Tensor(Protocol):
    """What type checkers know of torch's tensors and JAX's arrays, whether these are installed or not."""

    @property
    def device(self) -> Any:
        """Where it lies."""


class Frame(Protocol):
    """What they know of pandas' frames and series."""

    def to_numpy(self) -> Any:
        """Its values, without labels."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library with arrays of its own."""

    name: str  #: Of the module that is loaded where such arrays are about.
    types: tuple[str, ...]  #: Names of their classes in that module.
    #: Module with `array(value, name)`, the NumPy array of one operand, and `operands(a, b)`, those of two operands and
    #: what the product becomes; one of the two operands may be no array of the library.
    adapter: str
    #: Whether the adapter makes the product itself: it has `matmul(a, b, options, more)` in place of `operands`.
    multiplies: bool = False

    def owns(self, value: Any) -> bool:
        """Whether a value is one of its arrays."""
        module = sys.modules.get(self.name)
        return module is not None and isinstance(value, tuple(getattr(module, x, ()) for x in self.types))

    def array(self, value: Any, name: str) -> Array:
        """The NumPy array of one of its arrays, without a copy where that is possible.

        Raises ArgumentTypeError: it lies elsewhere, or NumPy has nothing like it.
        """
        found: Array = importlib.import_module(self.adapter).array(value, name)
        return found

    def operands(self, a: Any, b: Any) -> tuple[Array, Array, Wrap]:
        """The NumPy arrays of two operands, and what their product becomes.

        Raises ArgumentTypeError, ArgumentValueError: as :meth:`array`, or the operands' labels do not fit.
        """
        found: tuple[Array, Array, Wrap] = importlib.import_module(self.adapter).operands(a, b)
        return found


#: Types that are no library's, and most operands'.
_COMMON = (np.ndarray, list, tuple, float, int)

LIBRARIES = (
    Library("torch", ("Tensor",), "tilewright.engine.libraries.torch_tensors"),
    Library("jax", ("Array",), "tilewright.engine.libraries.jax_arrays"),
    Library("pandas", ("DataFrame", "Series", "Index"), "tilewright.engine.libraries.pandas_frames"),
    Library("dask.array", ("Array",), "tilewright.engine.libraries.dask_arrays", multiplies=True),
    Library("xarray", ("DataArray",), "tilewright.engine.libraries.xarray_arrays", multiplies=True),
)


def library_of(*values: Any) -> Library | None:
    """The library that arrays belong to; None where all are NumPy's, or sequences, or known by a protocol.

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
    """Whether a value is torch's, the one library whose arrays can be written."""
    return LIBRARIES[0].owns(value)


def of_operands(a: Any, b: Any, on_device: bool = False) -> tuple[Any, Library | None]:
    """The module that makes the product of two operands, where their library has one; else the library they belong to.

    So has torch where it records the product, which alone counts for arrays that lie on a device.

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
