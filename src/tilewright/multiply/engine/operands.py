"""Operands as NumPy arrays over the same memory: sequences, subclasses, DLPack, arrays of other libraries."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.engine.libraries import Library, is_tensor, library_of
from tilewright.multiply.engine.libraries.adapter import Wrap

Array = npt.NDArray[Any]


def array(value: Any, name: str) -> Array:
    """The array of an operand, without a copy if the operand has memory of its own.

    Raises ArgumentTypeError: the operand defines its own products, or cannot be read as an array on this host.
    """
    if type(value) is np.ndarray:
        return value
    library = library_of(value)
    if library is not None:
        return library.array(value, name)
    own = getattr(type(value), "__array_ufunc__", np.ndarray.__array_ufunc__)
    if own is not np.ndarray.__array_ufunc__:
        raise ArgumentTypeError(
            f"`{name}` must be an array that does not define its own products (got {type(value).__name__}, which "
            f"defines __array_ufunc__); write a @ b to use them, or pass numpy.asarray({name})"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"`{name}` must be without a mask, which a product would lose (got a masked array); pass {name}.filled(0)"
        )
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__") and not hasattr(value, "__array_interface__"):
        return _from_dlpack(value, name)
    try:
        found = np.asarray(value)
    except ValueError as error:  # a ragged sequence
        raise ArgumentValueError(
            f"`{name}` must be one array, every row of the same length ({error}); pad it or multiply parts"
        ) from error
    if found.ndim == 0 and found.dtype == object and not isinstance(value, Number | np.ndarray):
        made = f"{name}.toarray()" if hasattr(value, "toarray") else "an array or a list of its elements"
        raise ArgumentTypeError(f"`{name}` must be an array or a sequence (got {type(value).__name__}); pass {made}")
    return found


def _from_dlpack(value: Any, name: str) -> Array:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"`{name}` must be in this host's memory, with a dtype NumPy has (got {type(value).__name__}: {error}); "
            "copy it to the CPU"
        ) from error


def pair(a: Any, b: Any, library: Library | None) -> tuple[Array, Array, Wrap | None]:
    """The arrays of two operands, and the function that wraps the product; None if it stays an array or a scalar.

    `library` is the operands' library, or None.

    Raises ArgumentTypeError, ArgumentValueError: an operand cannot be multiplied, or the two do not belong together.
    """
    if type(a) is type(b) is np.ndarray:
        return a, b, None
    if library is not None:
        return library.operands(a, b, array)
    return array(a, "a"), array(b, "b"), _wrapping(a, b)


def _wrapping(a: Any, b: Any) -> Wrap | None:
    """The function that makes the result an array subclass.

    As in NumPy: if both operands can wrap, the one with the higher `__array_priority__` does; the first, if they are
    equal.
    """
    wanting = [x for x in (a, b) if type(x) is not np.ndarray and hasattr(type(x), "__array_wrap__")]
    if not wanting:
        return None
    best = max(wanting, key=lambda x: float(getattr(x, "__array_priority__", 0.0)))
    return lambda result: best.__array_wrap__(result, None, False)


def output(value: Any) -> tuple[Any, Array | None]:
    """`out` as the caller gave it, taken out of a ufunc's tuple of one, and the array to write to.

    Raises ArgumentTypeError, ArgumentValueError: `out` is not an array, or is read-only.
    """
    if isinstance(value, tuple):
        if len(value) != 1:
            raise ArgumentValueError(f"`out` must be one array or a tuple of one (got a tuple of {len(value)})")
        value = value[0]
    if value is None:
        return None, None
    if not isinstance(value, np.ndarray) and not is_tensor(value):
        raise ArgumentTypeError(f"`out` must be an array (got {type(value).__name__}); make it with numpy.empty")
    target = array(value, "out")
    if is_tensor(value) and (value.is_conj() or value.is_neg()):
        raise ArgumentValueError(
            "`out` must be a tensor with memory of its own (got a lazy conjugate); call .resolve_conj()"
        )
    if not target.flags.writeable:
        raise ArgumentValueError("`out` must be writable (this output array is read-only); pass a copy")
    return value, target
