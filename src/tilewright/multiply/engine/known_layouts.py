"""The fast path for plain arrays whose layout has been multiplied before: it sets the cost of small products."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError, TilewrightError
from tilewright.ground.native.memo import memo
from tilewright.multiply.backends.cpu.product import Product, product
from tilewright.multiply.backends.cpu.threads import Limit, limit
from tilewright.multiply.engine.promotion import ORDERS, Order, as_dtype, types
from tilewright.multiply.engine.shapes import repeats, result_shape
from tilewright.simulate.machine import host_memory
from tilewright.simulate.programs.array_arguments import row_major

Array = npt.NDArray[Any]
_Shape = tuple[int, ...]
_SAME = "lLqQ"  # dtypes that NumPy keeps apart although they compare and hash as equal
_ndarray, _empty, _share = np.ndarray, np.empty, np.may_share_memory


def known_product(a: Array, b: Array, out: Any, dtype: Any, threads: int | None, order: Order) -> Any:
    """The product of plain arrays whose layout has been multiplied before; None if more rules apply."""
    count = _limit().count if threads is None else thread_count(threads)
    into = None if out is None else _separate(out, a, b)
    if into == ():
        return None
    quick = _quick(a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, count, dtype, order, into)
    return None if quick is None else quick(a, b, out)


def _ready(shape: _Shape, dtype: np.dtype[Any], found: Product) -> Callable[[Array, Array, Array | None], Array]:
    """A product of plain arrays of which everything is known but the addresses."""
    run = found.run_arrays

    def multiply(a: Array, b: Array, out: Array | None) -> Array:
        if out is None:
            out = _empty(shape, dtype)
        run(a, b, out)
        return out

    def dot(a: Array, b: Array, out: Array | None) -> Any:
        return multiply(a, b, out)[()]

    return multiply if shape else dot


def _ready_promoted(shape: _Shape, found: Product) -> Callable[[Array, Array, Array | None], Any]:
    """A product of integers of 64 bits, which may be longlong, a dtype that compares and hashes as int64."""
    run, promoted = found.run_arrays, np.result_type

    def multiply(a: Array, b: Array, out: Array | None) -> Any:
        if out is None:
            out = _empty(shape, promoted(a, b))
        run(a, b, out)
        return out if shape else out[()]

    return multiply


def _separate(out: Any, a: Array, b: Array) -> tuple[Any, ...]:
    """Shape, strides and dtype of a plain array that may be written while the operands are read; else ()."""
    if type(out) is not _ndarray or not out.flags.writeable or _share(out, a) or _share(out, b):
        return ()
    return out.shape, out.strides, out.dtype


@memo
def _limit() -> Limit:
    return limit()


@functools.lru_cache(maxsize=4096)
def _quick(
    a_shape: _Shape,
    a_strides: _Shape,
    a_dtype: np.dtype[Any],
    b_shape: _Shape,
    b_strides: _Shape,
    b_dtype: np.dtype[Any],
    threads: int,
    dtype: npt.DTypeLike | None,
    order: Order,
    into: tuple[Any, ...] | None,
) -> Callable[[Array, Array, Array | None], Array] | None:
    """The product's prepared call for layouts that passed all checks; None if it takes more than one kernel."""
    if not a_shape or not b_shape or order not in ORDERS or (isinstance(dtype, np.dtype) and dtype.char in _SAME):
        return None
    dot = len(a_shape) == len(b_shape) == 1
    if dot and into is not None:
        return None
    try:
        wanted = None if dtype is None else as_dtype(dtype, "dtype")
        shape = result_shape(a_shape, b_shape)
        found = types(a_dtype, b_dtype, wanted, None, "result", order)
    except TilewrightError:
        return None  # the caller raises the error, since it knows the operands' names
    direct = found.lowering == "real" or (found.lowering == "complex" and found.accumulator == found.result)
    if not direct or (found.a, found.b) != (a_dtype, b_dtype) or 0 in shape:
        return None
    strides: _Shape
    out_shape, strides, out_dtype = (
        (shape, row_major(shape, found.result.itemsize), found.result) if into is None else into
    )
    if host_memory.is_large(shape, found.result) or (out_shape, out_dtype) != (shape, found.result):
        return None
    if repeats(shape, strides, found.result.itemsize):
        return None
    full = shape
    if dot:
        full, strides = (1, 1), (0, 0)
    elif len(a_shape) == 1:  # a 1-D operand is a row or a column, and the result lacks that axis
        full, strides = (*shape[:-1], 1, shape[-1]), (*strides[:-1], 0, strides[-1])
    elif len(b_shape) == 1:
        full, strides = (*shape, 1), (*strides, 0)
    if len(a_shape) == 1:
        a_shape, a_strides = (1, *a_shape), (0, *a_strides)
    if len(b_shape) == 1:
        b_shape, b_strides = (*b_shape, 1), (*b_strides, 0)
    ready = product(a_shape, a_strides, b_shape, b_strides, full, strides, found.kind, threads)
    promoted = dtype is None and found.result.kind in "iu" and found.result.itemsize == 8
    return _ready_promoted(shape, ready) if promoted else _ready(shape, found.result, ready)


def forget() -> None:
    """Forget all layouts, so that later calls use what a tuner has found since."""
    _quick.cache_clear()


def thread_count(wanted: int | None) -> int:
    """The most threads that a product may use: `wanted`, or those of the process.

    Raises ArgumentTypeError, ArgumentValueError: not a whole number, or less than 1.
    """
    if wanted is None:
        return _limit().count
    if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer):
        raise ArgumentTypeError(f"`threads` must be a whole number (got {type(wanted).__name__})")
    if wanted < 1:
        raise ArgumentValueError(f"`threads` must be at least 1 (got {wanted})")
    return int(wanted)
