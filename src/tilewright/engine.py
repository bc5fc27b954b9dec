"""`matmul`: NumPy's rules around the CPU engine's products, and `plan`, the same without operands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tilewright import lowering, operands
from tilewright.cpu.product import Product, product
from tilewright.cpu.threads import Limit, limit
from tilewright.errors import ArgumentTypeError, ArgumentValueError, TilewrightError
from tilewright.planning import Plan, Types, as_dtype, make, result_shape, row_major, types
from tilewright.problem.dtypes import dtype as record_of
from tilewright.problem.narrow import convert

Array = npt.NDArray[Any]
Order = Literal["canonical", "fast"]
_Shape = tuple[int, ...]

_ndarray, _empty = np.ndarray, np.empty


def matmul(
    a: Any,
    b: Any,
    /,
    out: Any = None,
    *,
    dtype: npt.DTypeLike | None = None,
    acc_dtype: npt.DTypeLike | None = None,
    alpha: complex = 1,
    beta: complex = 0,
    threads: int | None = None,
    order: Order = "canonical",
) -> Any:
    """Multiply matrices in the canonical order: the same bits for any threads, batch size, strides and host.

    Parameters
    ----------
    a, b : array_like, shapes (..., m, k) and (..., k, n), or (k,)
        As for `numpy.matmul`: axes before the last two broadcast, and 1-D operands are a row and a column. Any strides,
        read where they are: nothing is copied but operands whose values a kernel does not read (float8, another byte
        order, a cast that rounds). NumPy arrays, sequences, whatever has
        `__array_interface__` or DLPack on the CPU, CPU tensors of torch.
    out : ndarray or torch.Tensor, shape of the result, optional
        Where the result goes, cast by the rule "same_kind"; any strides, and it may overlap the operands.
    dtype : dtype, optional
        What the operands are taken for and the result has; their common dtype by default (float32 for float8).
        Integers wrap modulo its bits: int8 by int8 sums exactly with `dtype="int32"`.
    acc_dtype : dtype, optional
        Of the running sums: by default float32 for floats of up to 32 bits, else `dtype`'s own width.
    alpha, beta : number
        The result is ``alpha * sum + beta * out``, each operation rounded in the accumulator's dtype, then rounded once
        to `dtype`. With `beta` 0 what `out` holds is not read. Integers take integers.
    threads : int, optional
        At most so many; by default TILEWRIGHT_THREADS or the cores this process may use, or what threadpoolctl says.
        A small product uses fewer.
    order : {"canonical", "fast"}
        "fast" allows another order of summation; no kernel uses that yet.

    Returns
    -------
    ndarray, scalar or torch.Tensor
        As `numpy.matmul` returns it: a scalar for two 1-D operands, `out` where it is given, a subclass of ndarray by
        its `__array_wrap__`.

    Raises
    ------
    ArgumentValueError
        Shapes do not fit, an operand is a scalar, `out` is read-only. It is a ValueError.
    ArgumentTypeError
        Dtypes that have no product here (object, longdouble, dates, strings) or cannot be cast. It is a TypeError.

    Examples
    --------
    >>> import tilewright as tw
    >>> tw.matmul([[1, 2], [3, 4]], [10, 1])
    array([12, 34])
    >>> a = np.full((1, 4), 100, np.int8)
    >>> tw.matmul(a, a.T), tw.matmul(a, a.T, dtype="int32")
    (array([[64]], dtype=int8), array([[40000]], dtype=int32))
    """
    if type(a) is type(b) is _ndarray and out is dtype is acc_dtype is None:
        if alpha == 1 and beta == 0 and order == "canonical":
            count = _limit().count if threads is None else _threads(threads)
            quick = _quick(a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, count)
            if quick is not None:
                return quick(a, b)
    count = _threads(threads)
    if order not in ("canonical", "fast"):
        raise ArgumentValueError(f"`order` must be canonical or fast (got {order!r})")
    left, right = operands.array(a, "a"), operands.array(b, "b")
    given, target = operands.output(out)
    wanted = None if dtype is None else as_dtype(dtype, "dtype")
    total = None if acc_dtype is None else as_dtype(acc_dtype, "acc_dtype")
    shape = result_shape(left.shape, right.shape)
    found = types(left.dtype, right.dtype, wanted, total)
    result = _multiply(left, right, target, shape, found, (alpha, beta), count)
    if given is not None:
        return given
    wrap = operands.wrapping(a, b)
    if wrap is not None:
        return wrap(result)
    return result[()] if result.ndim == 0 else result


def plan(
    a_shape: _Shape,
    b_shape: _Shape,
    a_dtype: npt.DTypeLike = "float64",
    b_dtype: npt.DTypeLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    acc_dtype: npt.DTypeLike | None = None,
    threads: int | None = None,
) -> Plan:
    """What :func:`matmul` will do for operands of these shapes and dtypes.

    Parameters
    ----------
    a_shape, b_shape : tuple of int
    a_dtype, b_dtype : dtype, optional
        float64, and A's, by default.
    dtype, acc_dtype, threads
        As for :func:`matmul`.

    Returns
    -------
    Plan
        Its fields say kernel, tile, parts, threads and memory; call it with operands to multiply them.

    Examples
    --------
    >>> p = plan((64, 48), (48, 32), "int8", dtype="int32")
    >>> p.shape, p.acc_dtype.name, p.flops
    ((64, 32), 'int32', 196608)
    >>> p(np.ones((64, 48), np.int8), np.ones((48, 32), np.int8))[0, 0]
    np.int32(48)
    """
    left = as_dtype(a_dtype, "a_dtype")
    right = left if b_dtype is None else as_dtype(b_dtype, "b_dtype")
    wanted = None if dtype is None else as_dtype(dtype, "dtype")
    total = None if acc_dtype is None else as_dtype(acc_dtype, "acc_dtype")
    return make(tuple(a_shape), tuple(b_shape), left, right, wanted, total, _threads(threads))


def _ready(shape: _Shape, dtype: np.dtype[Any], found: Product) -> Callable[[Array, Array], Array]:
    """A product of plain arrays whose every detail is known but the addresses."""
    run = found.run_arrays

    def multiply(a: Array, b: Array) -> Array:
        out: Array = _empty(shape, dtype)
        run(a, b, out)
        return out

    return multiply


@functools.cache
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
) -> Callable[[Array, Array], Array] | None:
    """The way past every check for operands that have passed them; None for what takes more than one kernel."""
    if not a_shape or not b_shape or len(a_shape) == len(b_shape) == 1:
        return None
    try:
        shape, found = result_shape(a_shape, b_shape), types(a_dtype, b_dtype)
    except TilewrightError:
        return None  # told where the operands' names are known
    direct = found.lowering == "real" or (found.lowering == "complex" and found.accumulator == found.result)
    if not direct or (found.a, found.b) != (a_dtype, b_dtype) or 0 in shape:
        return None
    size = found.result.itemsize
    # 1-D operands are a row and a column, and the result lacks that axis.
    full = (*shape[:-1], 1, shape[-1]) if len(a_shape) == 1 else (*shape, 1) if len(b_shape) == 1 else shape
    if len(a_shape) == 1:
        a_shape, a_strides = (1, *a_shape), (0, *a_strides)
    if len(b_shape) == 1:
        b_shape, b_strides = (*b_shape, 1), (*b_strides, 0)
    ready = product(a_shape, a_strides, b_shape, b_strides, full, row_major(full, size), found.kind, threads)
    return _ready(shape, found.result, ready)


def _threads(wanted: int | None) -> int:
    if wanted is None:
        return _limit().count
    if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer):
        raise ArgumentTypeError(f"`threads` must be a whole number (got {type(wanted).__name__})")
    if wanted < 1:
        raise ArgumentValueError(f"`threads` must be at least 1 (got {wanted})")
    return int(wanted)


def _multiply(
    a: Array, b: Array, out: Array | None, shape: _Shape, found: Types, scale: tuple[complex, complex], threads: int
) -> Array:
    """The product of arrays, in `out` or in a new array."""
    if out is not None:
        _check_output(out, shape, found)
    elif scale[1] != 0:
        raise ArgumentValueError(f"`beta` must be 0 without `out`, which it scales (got {scale[1]})")
    if scale == (1, 0) and found.finishes_in_kernel:
        direct = out is not None and out.dtype == found.result and _apart(out, shape, (a, b))
        target: Array = out if direct and out is not None else np.empty(shape, found.result)
        lowering.compute(*_as_matrices(a, b, target), found, threads)
    else:
        target = _scaled(a, b, out, shape, found, scale, threads)
    if out is None or target is out:
        return target
    np.copyto(out, target, casting="unsafe")  # the rule has been checked, ml_dtypes' floats included
    return out


def _check_output(out: Array, shape: _Shape, found: Types) -> None:
    depth = out.ndim - len(shape)
    if depth < 0 or out.shape[depth:] != shape:
        raise ArgumentValueError(
            f"`out.shape` must be {shape}, perhaps after further axes (got {out.shape}, a non-broadcastable output); "
            f"make it with numpy.empty({shape})"
        )
    numbers = (
        found.result.kind in "fVc" and out.dtype.kind in "fVc" and not (found.result.kind == "c" != out.dtype.kind)
    )
    if not numbers and not np.can_cast(found.result, out.dtype, "same_kind"):
        raise ArgumentTypeError(
            f"`out.dtype` must take the product's dtype {found.result} by the rule same_kind (got {out.dtype}); give "
            "another `out` or `dtype`"
        )


def _apart(out: Array, shape: _Shape, others: tuple[Array, Array]) -> bool:
    """Whether `out` can be written while the operands are read, every element once."""
    repeats = any(stride == 0 and extent > 1 for stride, extent in zip(out.strides, out.shape, strict=True))
    return out.shape == shape and not repeats and not any(np.may_share_memory(out, x) for x in others)


def _as_matrices(a: Array, b: Array, out: Array) -> tuple[Array, Array, Array]:
    """1-D operands as a row and a column, and the result with the axes they lack."""
    if a.ndim == 1:
        a, out = a[None, :], out[..., None] if b.ndim == 1 else out[..., None, :]
    if b.ndim == 1:
        b, out = b[:, None], out[..., None]
    return a, b, out


def _scaled(
    a: Array, b: Array, out: Array | None, shape: _Shape, found: Types, scale: tuple[complex, complex], threads: int
) -> Array:
    """Alpha sum + beta out in the accumulator's dtype, rounded once to the result's."""
    total = found.accumulator
    factors = [_factor(value, name, total) for value, name in zip(scale, ("alpha", "beta"), strict=True)]
    sums: Array = np.empty(shape, total)
    wide = Types(total, total, found.a, found.b, found.lowering)
    lowering.compute(*_as_matrices(a, b, sums), wide, threads)
    with np.errstate(all="ignore"):  # as the kernels: IEEE's values, no warnings
        if scale[0] != 1:
            np.multiply(sums, factors[0], out=sums)
        if out is not None and scale[1] != 0:
            # Not in place: an `out` with further axes has a product for each of their entries.
            sums = np.add(sums, np.multiply(out.astype(total), factors[1]))
        if total.kind in "c" or total == found.result:
            return sums.astype(found.result, copy=False)
        return convert(sums, record_of(found.result))


def _factor(value: complex, name: str, total: np.dtype[Any]) -> Any:
    """A scale factor in the accumulator's dtype; integers wrap."""
    if total.kind == "b":
        if value in (0, 1):
            return value
        raise ArgumentTypeError(f"`{name}` must be left out for booleans (got {value!r})")
    if not np.isscalar(value) or isinstance(value, str | bytes):
        raise ArgumentTypeError(f"`{name}` must be a number (got {type(value).__name__})")
    if total.kind in "iu":
        if not isinstance(value, int | np.integer):
            raise ArgumentTypeError(f"`{name}` must be an integer for a product of integers (got {value!r})")
        return np.array(int(value) % (1 << 64), np.uint64).astype(total)[()]
    if isinstance(value, complex) and total.kind != "c":
        raise ArgumentTypeError(f"`{name}` must be real for a real product (got {value!r})")
    return total.type(value)
