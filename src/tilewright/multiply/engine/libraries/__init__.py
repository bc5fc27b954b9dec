"""Operands from other array libraries: converts them to NumPy arrays, and the product to the library's type.

A library is a row of `LIBRARIES`. Asking whether a value belongs to a library does not import it.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tilewright.errors import ArgumentTypeError
from tilewright.multiply.engine.libraries.adapter import Array, Read, Wrap


class Tensor(Protocol):
    """A torch tensor or JAX array, for type checkers; neither library has to be installed."""

    @property
    def device(self) -> Any:
        """The device that holds it."""


class Frame(Protocol):
    """A pandas frame or series, for type checkers."""

    def to_numpy(self) -> Any:
        """Its values, without labels."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library with arrays of its own."""

    name: str  #: The module that is loaded if such arrays exist.
    types: tuple[str, ...]  #: Names of their classes in that module.
    #: Module with `array(value, name)`, which converts one operand to a NumPy array, and `operands(a, b, read)`, which
    #: converts both and returns the function that wraps the product. One of them may be NumPy's or a sequence.
    adapter: str = ""
    refusal: str = ""  #: The error if `array` cannot convert a value, with `{name}` and `{type}`; empty if it can.

    def owns(self, value: Any) -> bool:
        """Whether a value is an array of this library."""
        module = sys.modules.get(self.name)
        return module is not None and isinstance(value, tuple(getattr(module, x, ()) for x in self.types))

    def array(self, value: Any, name: str) -> Array:
        """Convert one array of this library to a NumPy array, without a copy if possible.

        Raises ArgumentTypeError: the array is on a device, or cannot be converted.
        """
        if self.refusal:
            raise ArgumentTypeError(self.refusal.format(name=name, type=type(value).__name__))
        found: Array = importlib.import_module(self.adapter).array(value, name)
        return found

    def operands(self, a: Any, b: Any, read: Read) -> tuple[Array, Array, Wrap]:
        """Convert two operands, and return the function that wraps their product; `read` converts one.

        Raises ArgumentTypeError as :meth:`array`; ArgumentValueError: the labels of the operands do not match.
        """
        found: tuple[Array, Array, Wrap] = importlib.import_module(self.adapter).operands(a, b, read)
        return found


#: The most common types of operands, for which no library is searched.
COMMON = (np.ndarray, list, tuple, float, int)

LIBRARIES = (
    Library("torch", ("Tensor",), "tilewright.multiply.engine.libraries.torch_tensors"),
    Library("jax", ("Array",), "tilewright.multiply.engine.libraries.jax_arrays"),
    Library(
        "pandas",
        ("DataFrame", "Series", "Index"),
        "tilewright.multiply.engine.libraries.pandas_frames",
        "`{name}` must be without labels (got a pandas {type}); pass {name}.to_numpy()",
    ),
    Library(
        "dask.array",
        ("Array",),
        refusal="`{name}` must be in memory (got a Dask array); pass {name}.compute()",
    ),
    Library(
        "xarray",
        ("DataArray",),
        refusal="`{name}` must be without labels (got an xarray {type}); pass {name}.values",
    ),
)


def library_of(*values: Any) -> Library | None:
    """The library that operands belong to; None if they are NumPy arrays, sequences, or have an array protocol.

    Raises ArgumentTypeError: the operands belong to two libraries.
    """
    others = [x for x in values if type(x) not in COMMON]
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
