"""xarray's arrays as operands: the product has the dimensions and coordinates that are not summed over.

The matrices are in the last two dimensions, as for `numpy.matmul`. The dimension that is summed over must have the same
name in both. Ambiguous names are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import xarray

from tilewright.errors import ArgumentTypeError, ArgumentValueError


def matmul(a: Any, b: Any, options: Mapping[str, Any], more: Mapping[str, Any], multiply: Callable[..., Any]) -> Any:
    """The product of two xarray arrays, as a third; it is lazy if their data are.

    `options` are the arguments of :func:`tilewright.matmul` that pass through unchanged, `more` the others.

    Raises as :func:`tilewright.matmul`; ArgumentTypeError, ArgumentValueError: names or labels do not match.
    """
    for x, name in ((a, "a"), (b, "b")):
        if not isinstance(x, xarray.DataArray):
            raise ArgumentTypeError(
                f"`{name}` must be an xarray DataArray as the other operand is (got {type(x).__name__}); name its "
                "dimensions with xarray.DataArray(x, dims=[...]), or pass .data of the other"
            )
    for name, value in more.items():
        if value is not None:
            raise ArgumentTypeError(
                f"`{name}` must be left out for xarray's arrays (got {type(value).__name__}); pass .data of both"
            )
    dims = _dims(a, b)
    _check_coordinates(a, b)
    result = xarray.DataArray(multiply(a.data, b.data, **options), dims=dims)
    for x in (a, b):
        result = result.assign_coords(x.coords.to_dataset().drop_dims(a.dims[-1], errors="ignore").coords)
    result.name = a.name if a.name == b.name else None
    return result


def _dims(a: Any, b: Any) -> list[Any]:
    """Dimensions of the product: those of the batch, A's rows, B's columns.

    >>> _dims(xarray.DataArray([[[1]]], dims=["t", "i", "k"]), xarray.DataArray([[1]], dims=["k", "j"]))
    ['t', 'i', 'j']
    """
    if not a.dims or not b.dims:
        raise ArgumentValueError("`a` and `b` must have at least 1 dimension (got a scalar); use * to scale")
    inner, other = a.dims[-1], b.dims[-2:][0]
    if inner != other:
        raise ArgumentValueError(
            f"the last dimension of `a` must have the name of the last but one of `b`, over which they are summed (got "
            f"{inner} and {other}, of {a.dims} and {b.dims}); transpose or rename one"
        )
    longer, shorter = sorted((a.dims[:-2], b.dims[:-2]), key=len, reverse=True)
    if longer[len(longer) - len(shorter) :] != shorter:
        raise ArgumentValueError(
            f"dimensions before the matrices must have the same names, counted from the last (got {a.dims} and "
            f"{b.dims}); transpose or rename some"
        )
    found = [*longer, *a.dims[-2:-1], *(b.dims[-1:] if b.ndim > 1 else ())]
    twice = [x for x, count in Counter([*found, inner]).items() if count > 1]
    if twice:
        raise ArgumentValueError(
            f"dimensions of the product must have names of their own (got {twice[0]} twice, of {a.dims} and {b.dims}); "
            "rename one"
        )
    return found


def _check_coordinates(a: Any, b: Any) -> None:
    for name in sorted(set(a.coords) & set(b.coords), key=str):
        if not a.coords[name].variable.equals(b.coords[name].variable):
            raise ArgumentValueError(
                f"`a` and `b` must have the same coordinate {name} (got ones that differ); align them with "
                f'xarray.align, or drop it with .drop_vars("{name}")'
            )
