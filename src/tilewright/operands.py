"""What people multiply, as NumPy arrays over the same memory: sequences, subclasses, DLPack, torch's CPU tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.problem import narrow

Array = npt.NDArray[Any]
#: Turns the result into what the operands are.
Wrap = Callable[[Array], Any]


def array(value: Any, name: str) -> Array:
    """The array of an operand, without a copy where it has memory of its own.

    Raises
    ------
    ArgumentTypeError
        The operand has rules of its own for products, or cannot be seen as an array on this host.
    """
    if type(value) is np.ndarray:
        return value
    if _is_torch(value):
        return _from_torch(value, name)
    own = getattr(type(value), "__array_ufunc__", np.ndarray.__array_ufunc__)
    if own is not np.ndarray.__array_ufunc__:
        raise ArgumentTypeError(
            f"`{name}` must be an array without rules of its own for products (got {type(value).__name__}, which "
            f"defines __array_ufunc__); write a @ b to follow them, or pass numpy.asarray({name})"
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
        return np.asarray(value)
    except ValueError as error:  # a ragged sequence
        raise ArgumentValueError(
            f"`{name}` must be one array, every row of the same length ({error}); pad it or multiply parts"
        ) from error


def rounded(values: Array, wanted: np.dtype[Any]) -> Array:
    """An array as another dtype, every value rounded once and without warnings; itself where it has that dtype.

    NumPy's own casts from float64 to the floats of ml_dtypes round to float32 on the way.

    Examples
    --------
    >>> import ml_dtypes
    >>> float(rounded(np.array(1 + 2**-8 + 2**-40), np.dtype(ml_dtypes.bfloat16)))
    1.0078125
    """
    if values.dtype == np.float64 and (wanted.name == "bfloat16" or wanted.name.startswith("float8")):
        values = narrow.to_float32_odd(values)
    with np.errstate(all="ignore"):
        return values.astype(wanted, copy=False)


def _from_dlpack(value: Any, name: str) -> Array:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"`{name}` must lie in this host's memory, with a dtype NumPy has (got {type(value).__name__}: {error}); "
            "copy it to the CPU"
        ) from error


def _is_torch(value: Any) -> bool:
    """Whether a value is a tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def _from_torch(value: Any, name: str) -> Array:
    torch = sys.modules["torch"]
    if value.device.type != "cpu" or value.requires_grad:
        what = "requires a gradient" if value.requires_grad else f"lies on {value.device}"
        raise ArgumentTypeError(
            f"`{name}` must be a CPU tensor without gradient (this one {what}); call .detach() or .cpu()"
        )
    if value.dtype == torch.bfloat16:
        import ml_dtypes

        return np.asarray(value.view(torch.int16).numpy()).view(ml_dtypes.bfloat16)
    try:
        return np.asarray(value.numpy())
    except (TypeError, RuntimeError) as error:
        raise ArgumentTypeError(
            f"`{name}` must be a tensor that NumPy can see (got {value.dtype}: {error}); convert it with .to(...)"
        ) from error


def _to_torch(result: Array) -> Any:
    torch = sys.modules["torch"]
    if result.dtype.name == "bfloat16":
        return torch.from_numpy(result.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(result)


def wrapping(a: Any, b: Any) -> Wrap | None:
    """How the result becomes a tensor or an array subclass; None where it is an array.

    As NumPy has it, of two operands that want to wrap, the one with the higher `__array_priority__` does, and the first
    of equals.
    """
    if type(a) is np.ndarray and type(b) is np.ndarray:
        return None
    if _is_torch(a) or _is_torch(b):
        return _to_torch
    wanting = [x for x in (a, b) if type(x) is not np.ndarray and hasattr(type(x), "__array_wrap__")]
    if not wanting:
        return None
    best = max(wanting, key=lambda x: float(getattr(x, "__array_priority__", 0.0)))
    return lambda result: best.__array_wrap__(result, None, False)


def output(value: Any) -> tuple[Any, Array | None]:
    """`out` as the caller gave it, without the one-tuple a ufunc takes, and the array to write to.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        It is no array, or may not be written.
    """
    if isinstance(value, tuple):
        if len(value) != 1:
            raise ArgumentValueError(f"`out` must be one array or a tuple of one (got a tuple of {len(value)})")
        value = value[0]
    if value is None:
        return None, None
    if not isinstance(value, np.ndarray) and not _is_torch(value):
        raise ArgumentTypeError(f"`out` must be an array (got {type(value).__name__}); make it with numpy.empty")
    target = array(value, "out")
    if not target.flags.writeable:
        raise ArgumentValueError("`out` must be writable (this output array is read-only); pass a copy")
    return value, target
