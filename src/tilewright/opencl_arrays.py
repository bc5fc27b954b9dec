"""`matmul` of arrays that lie on an OpenCL device: read where they are, the result beside them.

Shapes, dtypes and epilogues follow the rules of arrays of the host; NumPy's arrays among the epilogue's operands are
copied to the device, as are operands that share memory with the result.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.fusing import Arguments, Epilogue, Fused, fused
from tilewright.planning import result_shape
from tilewright.problem.algebra import Algebra, semiring
from tilewright.problem.dtypes import name_of
from tilewright.problem.expression import identity
from tilewright.problem.kind import Kind
from tilewright.promotion import Casting, Order, Types, byte_kind, real_kind, types

Shape = tuple[int, ...]


def is_opencl(value: Any) -> bool:
    """Whether a value is a `pyopencl.array.Array`; pyopencl is not imported to find out."""
    module = sys.modules.get("pyopencl.array")
    return module is not None and isinstance(value, module.Array)


@dataclass(frozen=True, slots=True)
class Request:
    """What a product of such arrays was asked for, beside the arrays.

    Attributes
    ----------
    dtype, acc_dtype : numpy.dtype or None
    scale : (alpha, beta)
    epilogue, arguments
        As for :func:`tilewright.matmul`.
    algebra : str or Algebra
    order : {"canonical", "fast"}
    casting : str
        NumPy's rule; what only "unsafe" allows is refused.
    """

    dtype: np.dtype[Any] | None
    acc_dtype: np.dtype[Any] | None
    scale: tuple[complex, complex]
    epilogue: Epilogue | None
    arguments: Arguments
    algebra: str | Algebra
    order: Order
    casting: Casting = "same_kind"


def matmul(a: Any, b: Any, out: Any, asked: Request, device: str | None = None) -> Any:
    """Multiply two `pyopencl.array.Array`.

    Parameters
    ----------
    a, b : pyopencl.array.Array, shapes (..., m, k) and (..., k, n), or (k,)
        Any strides.
    out : pyopencl.array.Array, shape and dtype of the result, optional
        Any strides; it may share memory with operands.
    asked : Request
    device : str, optional
        Must be left out: the arrays lie on one.

    Returns
    -------
    pyopencl.array.Array
        On the queue of A, or B's; the call does not wait for it.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        As for arrays of the host, or an operand lies elsewhere.
    DeviceError, CompileError
        The device cannot, or its driver failed.
    """
    if device is not None:
        raise ArgumentValueError(f"`device` must be left out for arrays that lie on one (got {device!r})")
    queue = _queue(a, b)
    plain = asked.algebra == "plus-times"
    use: Any = "semiring" if not plain else "result" if asked.epilogue is None else "epilogue"
    casting: Casting = "same_kind" if asked.casting == "unsafe" else asked.casting
    found = types(a.dtype, b.dtype, asked.dtype, asked.acc_dtype, use, asked.order, casting)
    if found.lowering == "words" or (found.lowering != "real" and asked.scale != (1, 0)):
        raise ArgumentTypeError(
            f"`alpha`, `beta` and an algebra must be left out for OpenCL arrays of {found.result}; convert them with "
            ".astype, or multiply arrays of the host"
        )
    shape = result_shape(a.shape, b.shape)
    algebra = None if plain else semiring(asked.algebra, name_of(found.accumulator))
    stands = _StandIns()
    made = _fused(found, asked, out, shape, stands)
    kind = _kind(found, a.shape[-1], None if made is None else made.signature, algebra)
    dtype = np.dtype(bool) if found.lowering == "bool" else _result(found, made)
    target = _target(queue, a, shape, dtype) if out is None else _checked(out, shape, dtype)
    more = [] if made is None else stands.arrays(made.operands)
    for name, value in (("a", a), ("b", b), ("out", target), *(("an operand of `epilogue`", x) for x in more)):
        _check_place(name, value, queue)
    left, right = (_converted(*which, queue) for which in (("a", a, found.a), ("b", b, found.b)))
    if target.size:
        _run(queue, (left, right, target), kind, more, shape)
    return target


def _queue(a: Any, b: Any) -> Any:
    for name, value in (("a", a), ("b", b)):
        if not is_opencl(value):
            raise ArgumentTypeError(
                f"`{name}` must be an OpenCL array as the other operand is (got {type(value).__name__}); copy it with "
                "pyopencl.array.to_device(queue, ...)"
            )
    queue = a.queue or b.queue
    if queue is None:
        raise ArgumentValueError("`a` or `b` must have a queue (got arrays without one); call .with_queue(queue)")
    return queue


def _check_place(name: str, value: Any, queue: Any) -> None:
    """Refuse what no kernel on this queue can read: another context's memory, other bytes' order, parts of elements."""
    subject = name if "`" in name else f"`{name}`"
    if not is_opencl(value):
        return
    if value.context != queue.context:
        raise ArgumentValueError(
            f"{subject} must lie in the OpenCL context of the first operand that has a queue "
            "(got another); copy it there"
        )
    if not value.dtype.isnative:
        raise ArgumentTypeError(f"{subject} must have this machine's byte order (got {value.dtype}); swap its bytes")
    if any(x % value.dtype.itemsize for x in (value.offset, *value.strides)):
        raise ArgumentValueError(
            f"{subject} must have offset and strides of whole elements, {value.dtype.itemsize} bytes (got "
            f"{value.offset} and {value.strides}); copy it"
        )


class _StandIns:
    """Arrays of the host in the places of a device's, of their shapes and dtypes, while expressions are traced."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Any:
        if not is_opencl(value):
            return value
        stand = np.broadcast_to(np.zeros((), value.dtype), value.shape)
        self._found[id(stand)] = (stand, value)
        return stand

    def arguments(self, given: Arguments) -> Arguments:
        if isinstance(given, Mapping):
            return {name: self.of(value) for name, value in given.items()}
        return [self.of(value) for value in given] if isinstance(given, Sequence) else given

    def arrays(self, operands: Sequence[Any]) -> list[Any]:
        """The device's arrays again, and NumPy's as they are."""
        return [self._found[id(x)][1] if id(x) in self._found else x for x in operands]


def _fused(found: Types, asked: Request, out: Any, shape: Shape, stands: _StandIns) -> Fused | None:
    if found.lowering != "real":
        if asked.epilogue is not None or len(asked.arguments):
            raise ArgumentTypeError(f"`epilogue` must be left out for {found.result}; compute afterwards")
        return None
    if asked.scale[1] != 0 and out is None:
        raise ArgumentValueError(f"`beta` must be 0 without `out`, which it scales (got {asked.scale[1]})")
    arguments = stands.arguments(asked.arguments)
    return fused(found, asked.dtype, asked.epilogue, arguments, asked.scale, stands.of(out), shape)


def _kind(found: Types, k: int, finish: Any, algebra: Any) -> Kind:
    if found.lowering == "bool":
        counted = byte_kind(k)
        return counted._replace(out="bool", finish=identity(counted.accumulator, "bool"))
    if found.lowering == "complex":
        return found.kind
    return real_kind(found, algebra, finish)


def _result(found: Types, made: Fused | None) -> np.dtype[Any]:
    return found.result if made is None else made.result


def _target(queue: Any, like: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    import pyopencl.array

    with _told(queue, "placing the result", math.prod(shape) * dtype.itemsize):
        return pyopencl.array.empty(queue, shape, dtype, allocator=like.allocator)


def _told(queue: Any, what: str, needed_bytes: int) -> contextlib.AbstractContextManager[None]:
    """The driver's errors as ours."""
    from tilewright.gpu.opencl.devices import describe
    from tilewright.gpu.opencl.programs import told

    return told(describe(queue.device), what, needed_bytes)


def _checked(out: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    if not is_opencl(out):
        raise ArgumentTypeError(f"`out` must be an OpenCL array as the operands are (got {type(out).__name__})")
    if out.shape != shape or out.dtype != dtype:
        raise ArgumentValueError(
            f"`out` must have the product's shape {shape} and dtype {dtype} (got {out.shape} and {out.dtype}); "
            "make it with pyopencl.array.empty"
        )
    return out


def _converted(name: str, x: Any, wanted: np.dtype[Any], queue: Any) -> Any:
    """An operand in a dtype that kernels read."""
    if x.dtype.kind == "b":
        x = x.view(np.uint8)
        wanted = np.dtype(np.uint8) if wanted.kind == "b" else wanted
    if x.dtype == wanted:
        return x
    try:
        with _told(queue, f"`{name}` as {wanted}", x.size * wanted.itemsize):
            return x.with_queue(queue).astype(wanted)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"`{name}` must have a dtype that pyopencl casts to {wanted} (got {x.dtype}: {error}); give it that dtype, "
            "or multiply arrays of the host"
        ) from error


def _shares(x: Any, y: Any) -> bool:
    """Whether arrays lie in one buffer."""
    return None not in (x.base_data, y.base_data) and _whole(x.base_data) == _whole(y.base_data)


def _whole(memory: Any) -> Any:
    """A buffer, or what it is a region of."""
    import pyopencl

    if not isinstance(memory, pyopencl.MemoryObjectHolder):
        return memory
    return memory.get_info(pyopencl.mem_info.ASSOCIATED_MEMOBJECT) or memory


def _copied(x: Any, queue: Any) -> tuple[Any, int]:
    """The bytes that an array spans in a buffer of their own, as an array; and the array's offset there."""
    import pyopencl.array

    steps = [s * (n - 1) for s, n in zip(x.strides, x.shape, strict=True)]
    # Shared virtual memory is copied from its start only.
    low = x.offset + sum(min(s, 0) for s in steps) if isinstance(x.base_data, pyopencl.MemoryObjectHolder) else 0
    size = x.offset + sum(max(s, 0) for s in steps) + x.dtype.itemsize - low
    span = pyopencl.array.Array(
        queue, (size,), np.uint8, allocator=x.allocator, data=x.base_data, offset=low, events=x.events
    )
    with _told(queue, "a copy of an operand", size):
        return span.copy(queue), x.offset - low


def _run(queue: Any, arrays: tuple[Any, Any, Any], kind: Kind, more: Sequence[Any], shape: Shape) -> None:
    from tilewright.gpu.opencl import product
    from tilewright.gpu.opencl.devices import describe

    a, b, out = arrays
    device = describe(queue.device)

    waiting = [event for x in (*arrays, *more) if is_opencl(x) for event in x.events]

    def placed(x: Any, apart: bool = False) -> product.Placed:
        if not is_opencl(x):  # copied: the caller may change or free it before the device reads it
            return product.place(queue.context, device, np.asarray(x), shared=False)
        size, offset, memory = x.dtype.itemsize, x.offset, x
        if apart and x.size and _shares(x, out):
            memory, offset = _copied(x, queue)
            waiting.extend(memory.events)
        buffer = product.nothing(queue.context) if memory.base_data is None else memory.base_data
        return product.Placed(buffer, offset // size, x.shape, tuple(s // size for s in x.strides))

    left, right = placed(a, apart=True), placed(b, apart=True)
    row = left if len(a.shape) > 1 else left.reshaped((1, *a.shape), (0, *left.strides))
    column = right if len(b.shape) > 1 else right.reshaped((*b.shape, 1), (*right.strides, 0))
    # What is read where it is written, as `out` is with `beta`, is read before.
    flat = [placed(x, apart=not _same_places(x, out)).broadcast(shape) for x in more]
    places = [_axes(x, len(a.shape), len(b.shape)) for x in (placed(out), *flat)]
    done = product.run(queue, row, column, places[0], kind, places[1:], wait_for=waiting)
    out.add_event(done)


def _same_places(x: Any, out: Any) -> bool:
    """Whether arrays of a device are the same elements."""
    return is_opencl(x) and all(
        getattr(x, name) == getattr(out, name) for name in ("base_data", "offset", "shape", "strides", "dtype")
    )


def _axes(x: Any, a_ndim: int, b_ndim: int) -> Any:
    """An array of the result's shape with the axes that it lacks for 1-D operands."""
    shape, strides = x.shape, x.strides
    if b_ndim == 1:
        shape, strides = (*shape, 1), (*strides, 0)
    if a_ndim == 1:
        shape, strides = (*shape[:-1], 1, shape[-1]), (*strides[:-1], 0, strides[-1])
    return x.reshaped(shape, strides)
