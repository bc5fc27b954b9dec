"""Element types: one record each.

Source: IEEE 754-2019, table 3.5 (binary16, binary32, binary64); bfloat16 is binary32 with 8 significand bits.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, MissingExtraError


@dataclass(frozen=True, slots=True)
class Dtype:
    """One element type.

    Attributes
    ----------
    name : str
        NumPy's name.
    bytes : int
        Size of one element.
    kind : str
        `float`, `signed` or `unsigned`.
    accumulator : str
        Name of the type that products are summed in unless the caller says otherwise.
    precision : int
        Significand bits with the hidden one; for integers the bits of a magnitude.
    emin, emax : int
        Exponents of the smallest and largest normal power of two; 0 for integers.
    """

    name: str
    bytes: int
    kind: str
    accumulator: str
    precision: int
    emin: int = 0
    emax: int = 0

    @property
    def bits(self) -> int:
        """Width of one element."""
        return 8 * self.bytes

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.kind == "float"

    @property
    def exact_range(self) -> tuple[int, int]:
        """The widest interval of integers around zero that the type holds one and all.

        Examples
        --------
        >>> dtype("float16").exact_range
        (-2048, 2048)
        >>> dtype("uint8").exact_range
        (0, 255)
        """
        limit = 1 << self.precision
        if self.is_float:
            return -limit, limit
        return (-limit if self.kind == "signed" else 0), limit - 1

    @property
    def largest(self) -> float:
        """The largest finite value."""
        if not self.is_float:
            return float(self.exact_range[1])
        return (2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.emax

    @property
    def smallest(self) -> float:
        """The smallest positive value: the lowest subnormal, or 1."""
        return 2.0 ** (self.emin - self.precision + 1) if self.is_float else 1.0

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of one rounding to nearest; 0 for integers.

        Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 2.1.
        """
        return 2.0**-self.precision if self.is_float else 0.0

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype, in native byte order; bfloat16 comes from the `ml_dtypes` package."""
        if self.name != "bfloat16":
            return np.dtype(self.name)
        try:
            import ml_dtypes
        except ImportError as error:
            raise MissingExtraError(
                "bfloat16 arrays need the package ml_dtypes, which is not installed; run `pip install ml-dtypes`"
            ) from error
        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found

    def holds(self, other: Dtype) -> bool:
        """Whether every value of `other` is a value of this type."""
        if self.is_float != other.is_float:
            return False
        if self.is_float:
            return self.precision >= other.precision and self.emin <= other.emin and self.emax >= other.emax
        lower, upper = self.exact_range
        other_lower, other_upper = other.exact_range
        return lower <= other_lower and other_upper <= upper


#: Every dtype, narrow before wide.
DTYPES: tuple[Dtype, ...] = (
    Dtype("float16", 2, "float", "float32", 11, -14, 15),
    Dtype("bfloat16", 2, "float", "float32", 8, -126, 127),
    Dtype("float32", 4, "float", "float32", 24, -126, 127),
    Dtype("float64", 8, "float", "float64", 53, -1022, 1023),
    Dtype("int8", 1, "signed", "int32", 7),
    Dtype("int16", 2, "signed", "int32", 15),
    Dtype("int32", 4, "signed", "int32", 31),
    Dtype("int64", 8, "signed", "int64", 63),
    Dtype("uint8", 1, "unsigned", "uint32", 8),
    Dtype("uint16", 2, "unsigned", "uint32", 16),
    Dtype("uint32", 4, "unsigned", "uint32", 32),
    Dtype("uint64", 8, "unsigned", "uint64", 64),
)


@functools.lru_cache(maxsize=256)
def name_of(given: np.dtype[Any]) -> str:
    """A dtype's name, which NumPy puts together anew each time it is asked for.

    Examples
    --------
    >>> name_of(np.dtype("f4"))
    'float32'
    """
    return given.name


def dtype(like: Dtype | npt.DTypeLike) -> Dtype:
    """The record of a dtype.

    Parameters
    ----------
    like : Dtype or anything `numpy.dtype` takes
        Names work for all, `"bfloat16"` included; byte order is ignored.

    Raises
    ------
    ArgumentTypeError
        When there is no record for it.

    Examples
    --------
    >>> dtype("int8").accumulator
    'int32'
    >>> dtype(np.float32).bytes
    4
    """
    if isinstance(like, Dtype):
        return like
    try:
        name = like if like == "bfloat16" else np.dtype(like).name
    except TypeError:
        name = str(like)
    for record in DTYPES:
        if record.name == name:
            return record
    known = ", ".join(record.name for record in DTYPES)
    raise ArgumentTypeError(f"a matrix element must be one of {known} (got {name}); convert with `.astype(...)`")


def common(a: Dtype, b: Dtype) -> Dtype:
    """The narrowest record that holds all values of both.

    Raises
    ------
    ArgumentTypeError
        When there is none, as for int64 with uint64 or an integer with a float.

    Examples
    --------
    >>> common(dtype("int8"), dtype("uint8")).name
    'int16'
    >>> common(dtype("float16"), dtype("bfloat16")).name
    'float32'
    """
    for record in (a, b, *DTYPES):
        if record.holds(a) and record.holds(b):
            return record
    raise ArgumentTypeError(
        f"`a` and `b` must have dtypes that one dtype holds exactly (got {a.name} and {b.name}); convert one of them"
    )
