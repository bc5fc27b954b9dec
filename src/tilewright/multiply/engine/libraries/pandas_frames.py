"""Pandas' frames and series as operands: the product has their labels, as with `numpy.matmul`.

The columns of A and the rows of B are matched by label. If their orders differ, both take the order of the union, as in
pandas. If one has labels that the other lacks, there is no product.
"""

from __future__ import annotations

import sys
from typing import Any

from tilewright.errors import ArgumentValueError
from tilewright.multiply.engine.libraries.adapter import Array, Read, Wrap


def operands(a: Any, b: Any, read: Read) -> tuple[Array, Array, Wrap]:
    """The values of two operands in one order of labels; the product is a frame or a series where NumPy's would be.

    Raises ArgumentValueError: the labels do not match, or an operand has more than 2 dimensions.
    """
    index = sys.modules["pandas"].Index
    is_index = any(isinstance(x, index) for x in (a, b))
    a, b = (x.to_numpy() if isinstance(x, index) else x for x in (a, b))
    if _is_labelled(a) and _is_labelled(b):
        a, b = _aligned(a, b)
    left, right = (x.to_numpy() if _is_labelled(x) else read(x, name) for x, name in ((a, "a"), (b, "b")))
    for name, x in (("a", left), ("b", right)):
        if x.ndim > 2:
            raise ArgumentValueError(
                f"`{name}` must have at most 2 dimensions beside a pandas operand (got {x.shape}); pass .to_numpy()"
            )
    return left, right, _labelling(a, b, is_index=is_index)


def _is_labelled(value: Any) -> bool:
    pandas = sys.modules["pandas"]
    return isinstance(value, pandas.DataFrame | pandas.Series)


def _is_frame(value: Any) -> bool:
    return isinstance(value, sys.modules["pandas"].DataFrame)


def _aligned(a: Any, b: Any) -> tuple[Any, Any]:
    """Both operands with their inner labels in one order."""
    inner = a.columns if _is_frame(a) else a.index
    if inner.equals(b.index):
        return a, b
    common = inner.union(b.index)
    if len(common) > len(inner) or len(common) > len(b.index):
        raise ArgumentValueError(
            f"the columns of `a` and the rows of `b` must have the same labels (matrices are not aligned; got "
            f"{_some(inner)} and {_some(b.index)}); reindex one, or pass .to_numpy() to multiply by place"
        )
    return a.reindex(columns=common) if _is_frame(a) else a.reindex(index=common), b.reindex(index=common)


def _some(labels: Any) -> str:
    """Labels, shortened."""
    first = ", ".join(str(x) for x in labels[:4])
    return f"{first} ... ({len(labels)})" if len(labels) > 4 else first or "none"


def _labelling(a: Any, b: Any, *, is_index: bool) -> Wrap:
    """A function that labels the product; without a frame the product is an array or a scalar, as with NumPy."""
    pandas = sys.modules["pandas"]
    if not (_is_frame(a) or _is_frame(b)):
        return lambda result: pandas.Index(result) if is_index and result.ndim == 1 else result[()]
    like = a if _is_frame(a) else b
    rows = a.index if _is_frame(a) else None
    columns = b.columns if _is_frame(b) else None
    name = a.name if isinstance(a, pandas.Series) else None

    def label(result: Array) -> Any:
        if result.ndim == 2:
            return like._constructor(result, index=rows, columns=columns)
        return like._constructor_sliced(result, index=rows if rows is not None else columns, name=name)

    return label
