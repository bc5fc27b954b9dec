"""Arrays of other libraries as operands: their NumPy arrays, and the type of the product.

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
    #: Module with `array(value, name)`, which returns one operand's NumPy array, and `operands(a, b, read)`, which
    #: returns both and the function that wraps the product. One of the two may be an array of no library.
    adapter: str = ""
    refusal: str = ""  #: Why one of its arrays alone has no NumPy array, with `{name}` and `{type}`.

    def owns(self, value: Any) -> bool:
        """Whether a value is an array of this library."""
        module = sys.modules.get(self.name)
        return module is not None and isinstance(value, tuple(getattr(module, x, ()) for x in self.types))

    def array(self, value: Any, name: str) -> Array:
        """The NumPy array of one of its arrays, without a copy if possible.

        Raises ArgumentTypeError: the array is on a device, or NumPy has no such array.
        """
        if self.refusal:
            raise ArgumentTypeError(self.refusal.format(name=name, type=type(value).__name__))
        found: Array = importlib.import_module(self.adapter).array(value, name)
        return found

    def operands(self, a: Any, b: Any, read: Read) -> tuple[Array, Array, Wrap]:
        """The NumPy arrays of two operands, and the function that wraps their product; `read` reads one.

        Raises ArgumentTypeError, ArgumentValueError: as :meth:`array`, or the operands' labels do not fit.
        """
        found: tuple[Array, Array, Wrap] = importlib.import_module(self.adapter).operands(a, b, read)
        return found


#: Types of most operands, which belong to no library.
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
    """The library that arrays belong to; None if all are NumPy's, sequences, or read by a protocol.

    Raises ArgumentTypeError: they belong to two.
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
