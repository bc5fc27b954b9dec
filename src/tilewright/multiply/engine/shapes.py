"""Shapes and axes by `numpy.matmul`'s rules: the result's shape, the argument `axes`, 1-D operands.

`axes` gives views of operands and result with the matrices' axes last; nothing is copied.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

#: Most elements of a planned operand or result: a plan lists each call into machine code, about one per million.
_MOST_ELEMENTS = 2**40
_WHAT = ("a", "b", "the result")


def checked_shape(shape: Any, name: str) -> Shape:
    """A shape as the caller gave it, checked against the most elements of a plan.

    Raises ArgumentTypeError, ArgumentValueError: not a shape, or too many elements.
    """
    try:
        found = tuple(operator.index(x) for x in shape)
    except TypeError as error:
        came = shape if isinstance(shape, int | str | tuple) else type(shape).__name__
        raise ArgumentTypeError(
            f"`{name}` must be a shape, a tuple of whole numbers (got {came}); pass x.shape of an array"
        ) from error
    if any(x < 0 for x in found):
        raise ArgumentValueError(f"`{name}` must have extents of 0 or more (got {found})")
    if math.prod(found) > _MOST_ELEMENTS:
        raise ArgumentValueError(
            f"`{name}` must have at most {_MOST_ELEMENTS:,} elements (got {found}); plan a part of the product"
        )
    return found


def result_shape(a: Shape, b: Shape) -> Shape:
    """The shape of a product.

    Raises ArgumentValueError: an operand is a scalar, or extents do not match.

    >>> result_shape((5, 1, 2, 3), (4, 3, 7))
    (5, 4, 2, 7)
    """
    for name, shape in (("a", a), ("b", b)):
        if not shape:
            raise ArgumentValueError(f"`{name}` must have at least 1 dimension (got a scalar); use * to scale")
    inner = b[0] if len(b) == 1 else b[-2]
    if a[-1] != inner:
        raise ArgumentValueError(
            f"`b.shape[{0 if len(b) == 1 else -2}]` must equal `a.shape[-1]` (got {inner} and {a[-1]}); "
            f"shapes were {a} and {b}"
        )
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError as error:
        raise ArgumentValueError(
            f"the axes of `a` and `b` before the last two must broadcast (got {a[:-2]} and {b[:-2]}, of {a} and {b})"
        ) from error
    return (*batch, *(a[-2:-1] if len(a) > 1 else ()), *(b[-1:] if len(b) > 1 else ()))


def repeats(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Whether elements may share bytes: an axis has a stride smaller than the span of the axes with smaller strides."""
    span = itemsize
    for stride, extent in sorted((abs(x), n) for x, n in zip(strides, shape, strict=True) if n > 1):
        if stride < span:
            return True
        span += stride * (extent - 1)
    return False


def placed(a_ndim: int, b_ndim: int, x: Array) -> Array:
    """An array of the result's shape, with the axes added that the result lacks for 1-D operands."""
    if a_ndim == 1:
        x = x[..., None] if b_ndim == 1 else x[..., None, :]
    return x[..., None] if b_ndim == 1 else x


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of the matrices in both operands and the result, all from 0."""

    #: `a`, `b`, `out`: two axes of a matrix, one of a vector, none of a scalar.
    a: tuple[int, ...]
    b: tuple[int, ...]
    out: tuple[int, ...]

    @classmethod
    def of(cls, axes: Any, a_ndim: int, b_ndim: int) -> Axes:
        """Check the caller's `axes`.

        `axes` has a tuple each for `a`, `b` and the result; an int means a tuple of one.

        Raises ArgumentTypeError, ArgumentValueError: not a list of three tuples, or an axis is missing, repeated or out
        of bounds.

        >>> Axes.of([(0, 1), (-1, -2), (1, 0)], 2, 3)
        Axes(a=(0, 1), b=(2, 1), out=(1, 0))
        """
        if not isinstance(axes, list):
            raise ArgumentTypeError(
                f"`axes` must be a list of three tuples, for `a`, `b` and the result (got {type(axes).__name__}); "
                "[(-2, -1), (-2, -1), (-2, -1)] is the default for matrices"
            )
        if len(axes) != 3:
            raise ArgumentValueError(
                f"`axes` must have an entry for each of `a`, `b` and the result (got {len(axes)}); a scalar's is ()"
            )
        batch_ndim = max(a_ndim, b_ndim, 2) - 2
        own = min(a_ndim, 2), min(b_ndim, 2), (a_ndim > 1) + (b_ndim > 1)
        wanted = zip(axes, own, (a_ndim, b_ndim, batch_ndim + own[2]), range(3), strict=True)
        return cls(*(_entry(entry, count, ndim, place) for entry, count, ndim, place in wanted))


def _entry(entry: Any, count: int, ndim: int, place: int) -> tuple[int, ...]:
    """One operand's axes, counted from the front."""
    given = entry if isinstance(entry, tuple) else (entry,)
    try:
        numbers = [operator.index(axis) for axis in given]
    except TypeError as error:
        raise ArgumentTypeError(f"`axes[{place}]` must be a tuple of whole numbers (got {entry!r})") from error
    if len(numbers) != count:
        words = ("no axis", "1 axis", "2 axes")[count]
        raise ArgumentValueError(f"`axes[{place}]` must name {words} of {_WHAT[place]} (got {entry!r})")
    if any(not -ndim <= axis < ndim for axis in numbers):
        raise ArgumentValueError(
            f"`axes[{place}]` must name axes of {_WHAT[place]}, which has {ndim} dimensions (got {entry!r})"
        )
    found = tuple(axis % ndim for axis in numbers)
    if len(set(found)) < count:
        raise ArgumentValueError(f"`axes[{place}]` must name different axes (got {entry!r})")
    return found


def matrices_last(array: Any, own: tuple[int, ...]) -> Any:
    """A view with the matrices' axes last."""
    return array.transpose(_order(array.ndim, own))


def matrices_at(array: Any, own: tuple[int, ...]) -> Any:
    """A view that moves the matrices' axes from the end to their own places."""
    order = _order(array.ndim, own)
    return array.transpose(sorted(range(array.ndim), key=order.__getitem__))


def _order(ndim: int, own: tuple[int, ...]) -> list[int]:
    """All axes, the matrix's last."""
    return [axis for axis in range(ndim) if axis not in own] + list(own)
