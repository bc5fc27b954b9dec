"""Which axes are the rows, columns and inner extents of a product: `numpy.matmul`'s argument `axes`.

Operands and result are views with those axes last, as a product without `axes` has them; nothing is copied.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from tilewright.errors import ArgumentTypeError, ArgumentValueError

_WHAT = ("a", "b", "the result")


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of the matrices in both operands and the result, none negative.

    Attributes
    ----------
    a, b, out : tuple of int
        Two axes of a matrix, one of a vector, none of a scalar.
    """

    a: tuple[int, ...]
    b: tuple[int, ...]
    out: tuple[int, ...]

    @classmethod
    def of(cls, axes: Any, a_ndim: int, b_ndim: int) -> Axes:
        """Check what the caller gave.

        Parameters
        ----------
        axes : list of tuple of int
            For `a`, `b` and the result; an int stands for a tuple of one.
        a_ndim, b_ndim : int
            Dimensions of the operands.

        Raises
        ------
        ArgumentTypeError, ArgumentValueError
            Not a list of three tuples, or an axis is missing, repeated or out of bounds.

        Examples
        --------
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
    """A view whose matrices' axes are its last."""
    return array.transpose(_order(array.ndim, own))


def matrices_at(array: Any, own: tuple[int, ...]) -> Any:
    """A view of an array whose matrices' axes are its last, with them at these places."""
    order = _order(array.ndim, own)
    return array.transpose(sorted(range(array.ndim), key=order.__getitem__))


def _order(ndim: int, own: tuple[int, ...]) -> list[int]:
    """All axes, a matrix's own last."""
    return [axis for axis in range(ndim) if axis not in own] + list(own)
