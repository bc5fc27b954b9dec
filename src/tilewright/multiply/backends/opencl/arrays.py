"""`pyopencl.array.Array` as operands and results: read in place; the result is on the same queue.

The engine handles shapes, dtypes and epilogues. NumPy arrays among the epilogue's operands are copied to the device, as
are operands that share memory with the result.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl
import pyopencl.array

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.backends.opencl import product
from tilewright.multiply.backends.opencl.devices import describe
from tilewright.multiply.backends.opencl.programs import driver_errors
from tilewright.multiply.problem.kind import Kind

Shape = tuple[int, ...]


def is_opencl(value: Any) -> bool:
    """Whether a value is an OpenCL array."""
    return isinstance(value, pyopencl.array.Array)


@dataclass(frozen=True, slots=True)
class OpenclArrays:
    """The arrays of one product."""

    queue: Any  #: The pyopencl.CommandQueue of A, or of B; the result's too.
    allocator: Any  #: A's allocator, a callable or None.

    @classmethod
    def of(cls, a: Any, b: Any) -> OpenclArrays:
        """The arrays of two operands, both on a device.

        Raises ArgumentTypeError, ArgumentValueError.
        """
        for name, value in (("a", a), ("b", b)):
            if not is_opencl(value):
                raise ArgumentTypeError(
                    f"`{name}` must be an OpenCL array like the other operand (got {type(value).__name__}); copy it "
                    "with pyopencl.array.to_device(queue, ...)"
                )
        queue = a.queue or b.queue
        if queue is None:
            raise ArgumentValueError("`a` or `b` must have a queue (got arrays without one); call .with_queue(queue)")
        return cls(queue, a.allocator)

    def seen(self, name: str, value: Any) -> Any:
        """The operand itself."""
        return value

    def check(self, name: str, value: Any) -> None:
        """Raise for an array of another context or byte order, or with strides of partial elements."""
        if not is_opencl(value):
            return
        if value.context != self.queue.context:
            raise ArgumentValueError(
                f"`{name}` must be in the OpenCL context of the first operand that has a queue "
                "(got another); copy it there"
            )
        if not value.dtype.isnative:
            raise ArgumentTypeError(f"`{name}` must have this machine's byte order (got {value.dtype}); swap its bytes")
        if any(x % value.dtype.itemsize for x in (value.offset, *value.strides)):
            raise ArgumentValueError(
                f"`{name}` must have offset and strides of whole elements, {value.dtype.itemsize} bytes (got "
                f"{value.offset} and {value.strides}); copy it"
            )

    def output(self, out: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """`out`, if it fits, or a new array on the queue."""
        if out is None:
            with _our_errors(self.queue, "placing the result", math.prod(shape) * dtype.itemsize):
                return pyopencl.array.empty(self.queue, shape, dtype, allocator=self.allocator)
        if not is_opencl(out):
            raise ArgumentTypeError(f"`out` must be an OpenCL array like the operands (got {type(out).__name__})")
        if out.shape != shape or out.dtype != dtype:
            raise ArgumentValueError(
                f"`out` must have the product's shape {shape} and dtype {dtype} (got {out.shape} and {out.dtype}); "
                "make it with pyopencl.array.empty"
            )
        return out

    def result(self, made: Any) -> Any:
        """A new array as the caller gets it: itself."""
        return made

    def converted(self, name: str, x: Any, wanted: np.dtype[Any]) -> Any:
        """An operand in a dtype that kernels read."""
        if x.dtype.kind == "b":
            x = x.view(np.uint8)
            wanted = np.dtype(np.uint8) if wanted.kind == "b" else wanted
        if x.dtype == wanted:
            return x
        try:
            with _our_errors(self.queue, f"`{name}` as {wanted}", x.size * wanted.itemsize):
                return x.with_queue(self.queue).astype(wanted)
        except (TypeError, ValueError) as error:
            raise ArgumentTypeError(
                f"`{name}` must have a dtype that pyopencl casts to {wanted} (got {x.dtype}: {error}); give it "
                "that dtype, or multiply arrays of the host"
            ) from error

    def multiply_into(self, a: Any, b: Any, out: Any, kind: Kind, more: Sequence[Any], shape: Shape) -> None:
        """Enqueue out = a b; the event is added to the result."""
        queue, device = self.queue, describe(self.queue.device)
        waiting = [event for x in (a, b, out, *more) if is_opencl(x) for event in x.events]

        def placed(x: Any, apart: bool = False) -> product.Placed:
            if not is_opencl(x):  # copied, since the caller may change or free it before the device reads it
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
        # A kernel may read an element before it writes it, as it does `out` with `beta`.
        flat = [placed(x, apart=not _same_places(x, out)).broadcast(shape) for x in more]
        places = [_axes(x, len(a.shape), len(b.shape)) for x in (placed(out), *flat)]
        done = product.run(queue, row, column, places[0], kind, places[1:], wait_for=waiting)
        out.add_event(done)


def _our_errors(queue: Any, what: str, needed_bytes: int) -> contextlib.AbstractContextManager[None]:
    """Convert the driver's errors to ours."""
    return driver_errors(describe(queue.device), what, needed_bytes)


def _shares(x: Any, y: Any) -> bool:
    """Whether arrays are in one buffer."""
    return None not in (x.base_data, y.base_data) and _whole(x.base_data) == _whole(y.base_data)


def _whole(memory: Any) -> Any:
    """A buffer, or the buffer that it is a region of."""
    if not isinstance(memory, pyopencl.MemoryObjectHolder):
        return memory
    return memory.get_info(pyopencl.mem_info.ASSOCIATED_MEMOBJECT) or memory


def _copied(x: Any, queue: Any) -> tuple[Any, int]:
    """A copy of the bytes that an array spans, as an array, and the array's offset in it."""
    steps = [s * (n - 1) for s, n in zip(x.strides, x.shape, strict=True)]
    # Shared virtual memory can be copied from its start only.
    low = x.offset + sum(min(s, 0) for s in steps) if isinstance(x.base_data, pyopencl.MemoryObjectHolder) else 0
    size = x.offset + sum(max(s, 0) for s in steps) + x.dtype.itemsize - low
    span = pyopencl.array.Array(
        queue, (size,), np.uint8, allocator=x.allocator, data=x.base_data, offset=low, events=x.events
    )
    with _our_errors(queue, "a copy of an operand", size):
        return span.copy(queue), x.offset - low


def _same_places(x: Any, out: Any) -> bool:
    """Whether arrays of a device have the same elements in the same places."""
    return is_opencl(x) and all(
        getattr(x, name) == getattr(out, name) for name in ("base_data", "offset", "shape", "strides", "dtype")
    )


def _axes(x: Any, a_ndim: int, b_ndim: int) -> Any:
    """An array of the result's shape, with the axes added that the result lacks for 1-D operands."""
    shape, strides = x.shape, x.strides
    if b_ndim == 1:
        shape, strides = (*shape, 1), (*strides, 0)
    if a_ndim == 1:
        shape, strides = (*shape[:-1], 1, shape[-1]), (*strides[:-1], 0, strides[-1])
    return x.reshaped(shape, strides)
