"""`matmul`, which applies NumPy's rules and multiplies on a device, and `plan`, which does so without operands."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack, overload

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentValueError, TilewrightError
from tilewright.ground.lazy_exports import at_the_call, public
from tilewright.multiply.backends.inventory import Row, for_plans, owner
from tilewright.multiply.engine import device_arrays, operands, outside
from tilewright.multiply.engine.fusing import Arguments, Epilogue, Kept
from tilewright.multiply.engine.known_layouts import known_product, thread_count
from tilewright.multiply.engine.libraries import Frame, Tensor
from tilewright.multiply.engine.libraries.multiplying import of_operands
from tilewright.multiply.engine.planning import Plan, planned
from tilewright.multiply.engine.promotion import Casting, Order, as_dtype, check_order
from tilewright.multiply.engine.request import NAMES, Request, multiply
from tilewright.multiply.engine.shapes import (
    Axes,
    Shape,
    checked_shape,
    matrices_at,
    matrices_last,
    placed,
    result_shape,
)
from tilewright.multiply.problem.algebra import Algebra, checked

Array = npt.NDArray[Any]
_T = TypeVar("_T", bound=np.generic)
#: A constrained type variable: with a bound, two different dtypes would join to `generic`.
_Same = TypeVar(
    "_Same", np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16,
    np.float32, np.float64, np.complex64, np.complex128,
)  # fmt: skip
_Out = TypeVar("_Out", bound=Array | Tensor)
_Foreign = TypeVar("_Foreign", bound=Tensor | Frame)
_Named: TypeAlias = type[_T] | np.dtype[_T]
_ArrayLike: TypeAlias = Array | Sequence[Any]
_Shape = tuple[int, ...]

_NONE: Arguments = ()
_ndarray = np.ndarray


class Options(TypedDict, total=False):
    """The arguments of :func:`matmul` that do not change the type of its result."""

    acc_dtype: npt.DTypeLike | None
    alpha: complex
    beta: complex
    epilogue_args: Arguments
    algebra: str | Algebra
    threads: int | None
    order: Order
    device: str | None
    casting: Casting
    axes: list[Any] | None
    memory: int | str | None
    client: Any
    overwrite: bool


class PlanOptions(TypedDict, total=False):
    """The named arguments of :func:`plan`."""

    dtype: npt.DTypeLike | None
    acc_dtype: npt.DTypeLike | None
    epilogue: Epilogue | None
    epilogue_args: Arguments
    algebra: str | Algebra
    threads: int | None
    order: Order
    device: str | None
    memory: int | str | None


@overload
def matmul(a: Any, b: Any, /, out: _Out, *, dtype: Any = ..., epilogue: Any = ..., **rest: Unpack[Options]) -> _Out: ...
@overload
def matmul(
    a: _ArrayLike, b: _ArrayLike, /, out: None = ..., *, dtype: _Named[_T], epilogue: Any = ..., **rest: Unpack[Options]
) -> npt.NDArray[_T]: ...
@overload
def matmul(
    a: npt.NDArray[_Same],
    b: npt.NDArray[_Same],
    /,
    out: None = ...,
    *,
    dtype: None = ...,
    epilogue: None = ...,
    **rest: Unpack[Options],
) -> npt.NDArray[_Same]: ...
@overload
def matmul(
    a: _ArrayLike, b: _ArrayLike, /, out: None = ..., *, dtype: Any = ..., epilogue: Any = ..., **rest: Unpack[Options]
) -> npt.NDArray[Any]: ...
@overload
def matmul(
    a: _Foreign, b: _Foreign, /, out: None = ..., *, dtype: Any = ..., epilogue: Any = ..., **rest: Unpack[Options]
) -> _Foreign: ...
@overload
def matmul(
    a: Any, b: Any, /, out: Any = ..., *, dtype: Any = ..., epilogue: Any = ..., **rest: Unpack[Options]
) -> Any: ...
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
    epilogue: Epilogue | None = None,
    epilogue_args: Arguments = _NONE,
    algebra: str | Algebra = "plus-times",
    threads: int | None = None,
    order: Order = "canonical",
    device: str | None = None,
    casting: Casting = "same_kind",
    axes: list[Any] | None = None,
    memory: int | str | None = None,
    client: Any = None,
    overwrite: bool = False,
) -> Any:
    """Multiply matrices in the canonical order: the same bits for any threads, batch size, strides and host.

    Parameters
    ----------
    a, b : array_like, shapes (..., m, k) and (..., k, n), or (k,)
        As for `numpy.matmul`: axes before the last two broadcast, and 1-D operands are a row and a column. Any strides,
        read in place: only operands that no kernel reads are copied (float8, another byte order, a cast that rounds).
        NumPy arrays, sequences, objects with `__array_interface__` or DLPack on the CPU, CPU tensors of torch (their
        gradients are products of the same kind), JAX's arrays, pandas' frames and series, whose labels are matched as
        in `numpy.matmul`, arrays of Dask and xarray. Arrays on an NVIDIA GPU (CuPy's, torch's, numba-cuda's, JAX's),
        both there: they are multiplied there, in the caller's stream. Also arrays outside memory: paths of .npy, .zarr
        and .h5 files, arrays of zarr and h5py, `numpy.memmap` too large for memory. Panels of these are read while
        others are multiplied.
    out : ndarray, torch.Tensor or array on the GPU, shape of the result, optional
        The array for the result, cast by the rule `casting`; any strides. In memory it may overlap the operands;
        outside memory, or with `memory`, it must not. The path of a new .npy, .zarr or .h5 file takes a result that
        does not fit in memory: the file appears when it is complete, and the same call resumes an interrupted product.
        Arrays of zarr and h5py and `numpy.memmap` take such a result too, but are not resumed.
    dtype : dtype, optional
        The dtype to which the operands are cast, and of the result; by default their common dtype (float32 for float8).
        Integers wrap modulo its bits: int8 by int8 sums exactly with `dtype="int32"`.
    acc_dtype : dtype, optional
        The dtype of the running sums: by default float32 for floats of up to 32 bits, else `dtype`'s own width.
    alpha, beta : number
        The result is ``alpha * sum + beta * out``, each operation rounded in the accumulator's dtype, then rounded once
        to `dtype`. With `beta` 0 `out` is not read. Products of integers take integer factors.
    epilogue : callable, optional
        A function of the sum (after `alpha` and `beta`) and of `epilogue_args`, applied to every element before it is
        stored: written with operators and `tilewright`'s functions, traced, and compiled into the product. Values
        follow NumPy's promotion from the accumulator's dtype on. The result has `dtype` where that is given, else the
        function's own dtype where that is not the accumulator's. Floats saturate on their way to integers. A number
        written in the function is part of its kernel; one that changes from call to call belongs in `epilogue_args`.
    epilogue_args : sequence or mapping
        The epilogue's further arguments, by position or by name: scalars and arrays that broadcast to the result, so
        (n,) is a row and (m, 1) a column. Any strides, read in place.
    algebra : str or Algebra
        The operations in place of + and x: "plus-times", "min-plus", "max-plus", "max-min", "min-max", "max-times",
        "or-and", "xor-and", "log-sum-exp" or a :class:`tilewright.Algebra`. Integers are then summed in `dtype` itself
        and wrap. So the zero of min-plus, the largest integer, becomes the smallest when 1 is added. For "no path" use
        floats, whose infinity stays, or half the largest integer.
    threads : int, optional
        Most threads to use; by default TILEWRIGHT_THREADS, or the cores that this process may use, or threadpoolctl's
        limit. A small product uses fewer.
    order : {"canonical", "tf32x3", "fast"}
        "fast" allows another order of summation where it is faster: on GPUs the tensor cores, within the bound that the
        plan states; on the CPU vector lanes, for floats with at most 8 rows and columns and k of 1,024 or more, within
        :func:`tilewright.multiply.problem.reference.error_bound`; on hosts with AMX bfloat16 summed in float32, for all
        but small products, within that bound with `flushes`. "tf32x3" allows orders as accurate as
        a float32 sum: on GPUs float32 in three parts, for operands of 1e-30 to 3.4e38, and tensor cores for halves. All
        else stays canonical; `plan(..., order="fast").order` tells which order a product has.
    device : str, optional
        The device that multiplies arrays of the host: "cpu", the default; "opencl" for this machine's first OpenCL
        device, GPUs before processors; "opencl:NAME" or "opencl:1" for another, as `tilewright devices` lists them;
        "cuda" for the NVIDIA GPU; "simulated" or "simulated:h100" for a simulated GPU. The bits are the same
        everywhere. GPUs take no complex numbers.
    casting : {"no", "equiv", "safe", "same_kind", "unsafe"}
        The rule, as in `numpy.can_cast`, for casts of operands to `dtype` and of the product to `out`'s dtype.
    axes : list of three tuples of int, optional
        The axes of the matrices in `a`, `b` and the result, as for `numpy.matmul`: ``[(-2, -1), (-2, -1), (-2, -1)]``
        is the default for matrices; a vector has one axis, a scalar none.
    memory : int or str, optional
        Most memory that this process may use while arrays outside memory are multiplied: bytes, or text such as "2GB".
        By default half of the free memory on top of what the process has. With `client` it is the limit of each worker.
    overwrite : bool
        Whether to replace an array at the path `out`; otherwise a file that exists is an error.
    client : distributed.Client, optional
        The workers of its cluster make the product, tile by tile. `a`, `b` and `out` are then paths that all workers
        see; `a` and `b` may be maps of such files.

    Returns
    -------
    ndarray, scalar, or an array of the operands' library
        As `numpy.matmul` returns it: a scalar for two 1-D operands, `out` if given, a subclass of ndarray by its
        `__array_wrap__`, a frame or series with labels; a tensor of torch or an array of JAX if one operand is one; a
        lazy Dask array; an xarray array with the dimensions that are not summed over.

    Raises
    ------
    ArgumentValueError
        Shapes do not match, an operand is a scalar, or `out` is read-only. It is a ValueError.
    ArgumentTypeError
        The dtypes have no product here (object, longdouble, dates, strings) or cannot be cast. It is a TypeError.
    DeviceError, MissingExtraError
        This machine has no such device, the device has no such product, or a package that it needs is not installed.
    StorageError
        An array on disk cannot be read or written, or changed during the product. It is an OSError.
    OutOfMemoryError
        The result does not fit in this host's memory; the message says what would. It is a MemoryError.

    Examples
    --------
    >>> import tilewright as tw
    >>> tw.matmul([[1, 2], [3, 4]], [10, 1])
    array([12, 34])
    >>> a = np.full((1, 4), 100, np.int8)
    >>> tw.matmul(a, a.T), tw.matmul(a, a.T, dtype="int32")
    (array([[64]], dtype=int8), array([[40000]], dtype=int32))
    >>> x, bias = np.eye(2, dtype=np.float32), np.float32([-3, 1])
    >>> tw.matmul(x, x, epilogue=lambda total, bias: tw.relu(2 * total + bias), epilogue_args=[bias])
    array([[0., 1.],
           [0., 3.]], dtype=float32)
    >>> tw.matmul(a, a.T, epilogue=lambda total: tw.requantise(total, 0.001))
    array([[40]], dtype=int8)
    """
    try:
        of_numpy = type(a) is type(b) is _ndarray
        if of_numpy and acc_dtype is memory is client is None and epilogue is None and device is None and axes is None:
            plain = type(alpha) is type(beta) is int and alpha == 1 and beta == 0 and type(order) is str
            plain = plain and epilogue_args is _NONE and casting == "same_kind" and algebra == "plus-times"
            if plain and (dtype is None or isinstance(dtype, NAMES)):
                found = known_product(a, b, out, dtype, threads, order)
                if found is not None:
                    return found
        row = None if of_numpy else owner(a, b)
        given = Request(
            dtype, acc_dtype, alpha, beta, epilogue, epilogue_args, algebra, threads, order, device, casting
        )
        if row is not None and memory is client is None and axes is None:
            found = device_arrays.known_product(a, b, out, given, row)
            if found is not None:
                return found
        if memory is not None or client is not None or outside.is_outside(a, b, out):
            if axes is not None:
                raise ArgumentValueError(
                    "`axes` must be left out for arrays outside memory; store them with matrices last"
                )
            return outside.matmul(a, b, out, given, memory, client, overwrite=overwrite)
        return _matmul(a, b, out, given, axes, row)
    except TilewrightError as error:
        raise at_the_call(error) from error.__cause__


def _matmul(a: Any, b: Any, out: Any, asked: Request, axes: list[Any] | None, row: Row | None) -> Any:
    """The product by the full way through all rules; `row` is the device that holds an operand, or None."""
    asked.check()
    maker, library = of_operands(a, b, row is not None)
    if maker is not None:
        return maker.matmul(a, b, asked.options(), {"out": out, "axes": axes}, matmul)
    if row is not None:
        return device_arrays.matmul(a, b, out, asked, row, axes)
    left, right, wrap = operands.pair(a, b, library)
    given, target = operands.output(out)
    own = None if axes is None else Axes.of(axes, left.ndim, right.ndim)
    converted = left is not a or right is not b
    if converted and given is own is None and asked.is_plain:
        quick = known_product(left, right, None, asked.dtype, asked.threads, asked.order)
        if quick is not None:
            return quick if wrap is None else wrap(quick)
    if own is not None:
        left, right = matrices_last(left, own.a), matrices_last(right, own.b)
        # An `out` with too few axes is refused for its shape.
        target = (
            matrices_last(target, own.out) if target is not None and target.ndim > max(own.out, default=-1) else target
        )
    result = multiply(left, right, target, asked)
    if given is not None:
        return given
    if own is not None:
        result = matrices_at(result, own.out)
    return wrap(result) if wrap is not None else result[()] if result.ndim == 0 else result


@overload
def plan(
    a_shape: _Shape,
    b_shape: _Shape,
    a_dtype: npt.DTypeLike = ...,
    b_dtype: npt.DTypeLike | None = ...,
    **rest: Unpack[PlanOptions],
) -> Plan: ...
@overload
def plan(a_shape: Any, b_shape: Any, **rest: Unpack[PlanOptions]) -> Any: ...
@public
def plan(
    a_shape: Any,
    b_shape: Any,
    a_dtype: npt.DTypeLike = "float64",
    b_dtype: npt.DTypeLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    acc_dtype: npt.DTypeLike | None = None,
    epilogue: Epilogue | None = None,
    epilogue_args: Arguments = (),
    algebra: str | Algebra = "plus-times",
    threads: int | None = None,
    order: Order = "canonical",
    device: str | None = None,
    memory: int | str | None = None,
) -> Any:
    """Plan what :func:`matmul` does for operands of these shapes and dtypes.

    Parameters
    ----------
    a_shape, b_shape : tuple of int
        Or operands outside memory: paths, arrays of zarr and h5py. These bring their own dtypes.
    a_dtype, b_dtype : dtype, optional
        float64 by default, and A's for B.
    dtype, acc_dtype, epilogue, epilogue_args, algebra, threads, order, device
        As for :func:`matmul`. The plan keeps the epilogue as traced now, and its arguments.
    memory : int or str, optional
        As for :func:`matmul`, for operands outside memory.

    Returns
    -------
    Plan, or tilewright.multiply.blocks.planning.BlockPlan
        The latter for operands outside memory: tiles, panels, bytes and time, as printed before such a product. A
        plan's fields, and its text, give path, kernel, tile, parts, threads and memory. Call it with operands to
        multiply them.

    Examples
    --------
    >>> p = plan((64, 48), (48, 32), "int8", dtype="int32")
    >>> p.shape, p.acc_dtype.name, p.flops
    ((64, 32), 'int32', 196608)
    >>> p(np.ones((64, 48), np.int8), np.ones((48, 32), np.int8))[0, 0]
    np.int32(48)
    """
    if memory is not None or outside.is_outside(a_shape, b_shape, None):
        asked = Request(dtype, acc_dtype, 1, 0, epilogue, epilogue_args, algebra, threads, order, device)
        with outside.planned(a_shape, b_shape, None, asked, memory) as product:
            return product.plan
    left = as_dtype(a_dtype, "a_dtype")
    right = left if b_dtype is None else as_dtype(b_dtype, "b_dtype")
    check_order(order)
    asked = Request(
        dtype,
        acc_dtype,
        epilogue=epilogue,
        epilogue_args=epilogue_args,
        algebra=algebra,
        threads=threads,
        order=order,
        device=device,
    )
    shapes = checked_shape(a_shape, "a_shape"), checked_shape(b_shape, "b_shape")
    return _plan(asked, *shapes, left, right)


def _plan(asked: Request, a: Shape, b: Shape, a_dtype: np.dtype[Any], b_dtype: np.dtype[Any]) -> Plan:
    """The plan of a product of operands with these shapes and dtypes."""
    chosen, shape = checked(asked.algebra), checked_shape(result_shape(a, b), "result")
    found = asked.types(a_dtype, b_dtype)
    made = asked.fused(found, None, shape)
    more = [] if made is None else made.laid(shape, functools.partial(placed, len(a), len(b)))
    signature = None if made is None else made.signature
    count = thread_count(asked.threads)
    ready = planned(for_plans(asked.device), a, b, found, count, asked.semiring(found), signature, more)
    kept = asked.epilogue if made is None or asked.epilogue is None else Kept(asked.epilogue, made.expression)
    options: dict[str, Any] = {
        "dtype": asked.wanted,
        "acc_dtype": asked.total,
        "algebra": chosen,
        "epilogue": kept,
        "order": asked.order,
        "epilogue_args": asked.epilogue_args,
        "device": asked.device,
        "threads": ready.threads if asked.device is None else asked.threads,
    }
    return Plan(
        **{x.name: getattr(ready, x.name) for x in fields(ready)},
        a_shape=a,
        b_shape=b,
        shape=shape,
        a_dtype=a_dtype,
        b_dtype=b_dtype,
        dtype=made.result if made is not None else found.result,
        acc_dtype=found.accumulator,
        lowering=found.lowering,
        algebra=chosen if isinstance(chosen, str) else chosen.name or "of its own",
        epilogue=str(made.expression) if made is not None else "",
        options=options,
        multiply=matmul,
    )
