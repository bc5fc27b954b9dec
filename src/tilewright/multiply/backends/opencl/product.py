"""Products on an OpenCL device, of arrays in its memory or in the host's, which is shared if the device can.

A batch is one launch: its third axis counts matrices, and a table holds the start of each matrix's operands. So one way
serves batches of any axes and strides, including broadcast ones.

Source: OpenCL 1.2 Specification, sections 5.2.1 (buffers of the host's memory), 5.4 (mapping).
"""

from __future__ import annotations

import ctypes
import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentValueError, DeviceError
from tilewright.ground.native.memo import bounded
from tilewright.multiply.backends.opencl.devices import OpenclDevice, binding, describe
from tilewright.multiply.backends.opencl.programs import CONTEXTS, driver_errors, kernel
from tilewright.multiply.backends.opencl.source import Form, Layout, Tile, needs_double
from tilewright.multiply.backends.opencl.tiles import chosen, key_of, of_form, ranked
from tilewright.multiply.backends.protocol import IN_WORDS, Choices, Planned, Strided
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.kind import Kind

Array = npt.NDArray[Any]
#: The limit of extents, which kernels count as `int`.
_EXTENT_MAX = 2**31 - 256


@dataclass(frozen=True, slots=True)
class Placed:
    """An array in a device's memory."""

    buffer: Any  #: pyopencl.Buffer.
    start: int  #: Index of the array's first element in the buffer.
    shape: tuple[int, ...]
    strides: tuple[int, ...]  #: In elements.

    def reshaped(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> Placed:
        """The array's memory with other axes."""
        return Placed(self.buffer, self.start, shape, strides)

    def broadcast(self, shape: tuple[int, ...]) -> Placed:
        """The array broadcast to a shape, by NumPy's rules."""
        added = len(shape) - len(self.shape)
        steps = (0 if n == 1 else s for n, s in zip(self.shape, self.strides, strict=True))
        return self.reshaped(shape, (*(0,) * added, *steps))


def run(
    queue: Any,
    a: Placed,
    b: Placed,
    out: Placed,
    kind: Kind,
    more: Sequence[Placed] = (),
    cut: Tile | None = None,
    wait_for: Sequence[Any] = (),
) -> Any:
    """Enqueue out = a b, in canonical order.

    `a`, `b` and `out` have shapes (..., m, k), (..., k, n) and (..., m, n); the axes before the last two broadcast to
    `out`'s, which shares no memory with the operands. `more` are operands of the finish, of `out`'s shape. `cut` is by
    default the tile for this device and shape. Returns the event; the kernel waits for the events of `wait_for`.

    Raises ArgumentValueError: an extent is over 2**31; DeviceError, CompileError: the device cannot, or its driver
    failed.
    """
    device = describe(queue.device)
    (m, k), n = a.shape[-2:], b.shape[-1]
    if max(m, n, k) > _EXTENT_MAX:
        raise ArgumentValueError(f"extents on an OpenCL device must be below {_EXTENT_MAX:,} (got {max(m, n, k):,})")
    why_not = lacks(device, kind)
    if why_not:
        raise DeviceError(f"{device.name}: {why_not}")
    cut = chosen(device, kind, m, n, k)[0][0] if cut is None else cut
    layout = _layout(a.strides, b.strides, kind)
    made = kernel(queue.context, queue.device, kind, cut, layout)
    arrays = (a, b, out, *more)
    starts = _starts(arrays, out.shape[:-2])
    cl = binding()
    with driver_errors(device, "multiplying", starts.nbytes):
        flags = cl.mem_flags
        table = cl.Buffer(queue.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=starts)
        strides = [np.int64(s) for x in arrays for s in x.strides[-2:]]
        sizes = [np.int32(x) for x in (m, n, k)]
        across, down = cut.items
        groups = -(-n // cut.bn) * across, -(-m // cut.bm) * down, len(starts)
        buffers = [x.buffer for x in arrays]
        return made.launch(queue, groups, (across, down, 1), *buffers, table, *sizes, *strides, wait_for=wait_for)


def lacks(device: OpenclDevice, kind: Kind) -> str:
    """The feature that a device lacks for products of a kind; "" where it can multiply them."""
    if kind.continues:
        return "no OpenCL kernel continues given sums; multiply the whole of k at once"
    if kind.accumulator == "bool":
        return IN_WORDS
    if device.doubles or not needs_double(kind, device.divides):
        return ""
    division = " and leave out divisions and roots, which it does not round correctly" * (not device.divides)
    return (
        f"this product of {kind.a} with sums of {kind.accumulator} needs 64-bit floats, which the device lacks "
        f"(cl_khr_fp64); use float32{division}, or another device"
    )


def _layout(a: Sequence[int], b: Sequence[int], kind: Kind) -> Layout:
    """The facts about operands' strides, in elements, that kernels are specialised for."""
    a_by_columns, b_by_columns = (x[-2] == 1 != x[-1] for x in (a, b))
    return Layout(a_by_columns, b_by_columns, b_vectors=b[-1] == 1 and kind.b != "bool")


def _starts(arrays: Sequence[Placed], batch: tuple[int, ...]) -> Array:
    """The start of each matrix of a batch in each array, int64 (matrices, arrays), in elements."""
    table: Array = np.empty((max(int(np.prod(batch)), 0), len(arrays)), np.int64)
    for column, x in enumerate(arrays):
        starts = np.full((), x.start, np.int64)
        axes = len(batch) - (len(x.shape) - 2)
        steps = [0] * axes + [s if n > 1 else 0 for n, s in zip(x.shape[:-2], x.strides[:-2], strict=True)]
        for extent, step in zip(batch, steps, strict=True):
            starts = starts[..., None] + np.arange(extent, dtype=np.int64) * step
        table[:, column] = starts.reshape(-1)
    return table


class HostProducts:
    """Products of NumPy arrays on a device.

    >>> from tilewright.multiply.backends.opencl.devices import choose
    >>> products = HostProducts(choose("opencl"))
    >>> out = np.empty((2, 2), np.float32)
    >>> products.multiply_into(np.eye(2, dtype=np.float32), np.ones((2, 2), np.float32), out, Kind(*["float32"] * 4))
    >>> out
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    """

    def __init__(self, device: OpenclDevice) -> None:
        cl = binding()
        self.device = device
        with driver_errors(device, "opening it"):
            self.context = cl.Context([device.handle])
            self.queue = cl.CommandQueue(self.context, device.handle)

    @property
    def name(self) -> str:
        """The device's name and its platform's."""
        return f"{self.device.name} ({self.device.platform})"

    def refusal(self, kind: Kind) -> str:
        """The feature that the device lacks for products of a kind; "" where it can multiply them."""
        return lacks(self.device, kind)

    def plan(self, arrays: Strided, kind: Kind, threads: int) -> Planned:
        """Plan the launch of a product: `parts` are work-groups of a matrix, `threads` their work-items."""
        m, n, k = *arrays.out[-2:], arrays.a[-1]
        found = chosen(self.device, kind, m, n, k)
        cut = found[0][0]
        a_steps = [stride // element(kind.a).bytes for stride in arrays.a_strides]
        b_steps = [stride // element(kind.b).bytes for stride in arrays.b_strides]
        across, down = cut.items
        return Planned(
            path=cut.form,
            order="canonical",
            kernel=_layout(a_steps, b_steps, kind),
            tile=cut,
            parts=-(-m // cut.bm) * -(-n // cut.bn),
            threads=across * down,
            buffer_bytes=cut.local_bytes(kind.accumulator),
            flops=2 * math.prod(arrays.out) * k * element(kind.out).pairs ** 2,
            text=f"{cut.form}: blocks of {cut.bm} x {cut.bn} in steps of {cut.bk}, {cut.tm} x {cut.tn} a work-item",
            ranking=tuple(one for _, one in found),
        )

    def choices(self, kind: Kind, extents: tuple[int, int, int]) -> Choices:
        """The tiles, by estimate."""
        found = ranked(self.device, kind, *extents)

        def prepare(at: int, a: Array, b: Array) -> Callable[[], None]:
            return self._repeated(a, b, kind, found[at][0])[0]

        asked = key_of(self.device, kind, *extents)
        return Choices(asked, tuple(one for _, one in found), prepare, lambda: None)

    def multiply_into(
        self,
        a: Array,
        b: Array,
        out: Array,
        kind: Kind,
        threads: int | None = None,
        more: Sequence[Array] = (),
        cut: Tile | None = None,
    ) -> None:
        """Compute out = a b like the CPU's `multiply_into`; `threads` is ignored."""
        if out.size == 0:
            return
        target = out if out.flags.c_contiguous and out.flags.aligned else np.empty(out.shape, out.dtype)
        if any(np.may_share_memory(target, x) for x in more):
            target = np.empty(out.shape, out.dtype)  # a kernel's arrays may not overlap
        placed = [place(self.context, self.device, np.asarray(x), self.device.unified) for x in (a, b, *more)]
        self._run(placed, target, kind, cut)
        if target is not out:
            out[...] = target

    def timed(self, a: Array, b: Array, kind: Kind, form: Form) -> tuple[Array, float, float]:
        """Multiply twice, as S4's driver does: arrays registered, then a launch with compilation, and one without.

        `a` and `b` have shapes (m, k) and (k, n). Returns C and the seconds of both launches, each until it completes.
        The driver may have a compiled kernel from an earlier process.
        """
        launch, result = self.repeated(a, b, kind, form)
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            launch()
            seconds.append(time.perf_counter() - start)
        return result(), seconds[0], seconds[1]

    def repeated(self, a: Array, b: Array, kind: Kind, form: Form) -> tuple[Callable[[], None], Callable[[], Array]]:
        """Register a product's arrays; return a function that launches a kernel and waits, and one that fetches C."""
        return self._repeated(a, b, kind, of_form(form, self.device, kind))

    def _repeated(self, a: Array, b: Array, kind: Kind, cut: Tile) -> tuple[Callable[[], None], Callable[[], Array]]:
        out: Array = np.empty((a.shape[0], b.shape[1]), element(kind.out).numpy)
        left, right = (place(self.context, self.device, x, self.device.unified) for x in (a, b))
        buffer = self._registered(out)
        target = Placed(buffer, 0, out.shape, _steps(out))

        def launch() -> None:
            run(self.queue, left, right, target, kind, cut=cut)
            with driver_errors(self.device, "multiplying"):
                self.queue.finish()

        def result() -> Array:
            self._bring_back(buffer, out)
            return out

        return launch, result

    def _run(self, placed: list[Placed], target: Array, kind: Kind, cut: Tile | None) -> None:
        buffer = self._registered(target)
        result = Placed(buffer, 0, target.shape, _steps(target))
        try:
            run(self.queue, placed[0], placed[1], result, kind, placed[2:], cut)
            self._bring_back(buffer, target)
        except BaseException:  # the device may still use the host's memory, which is about to be freed
            self.queue.finish()
            raise

    def _registered(self, target: Array) -> Any:
        """A buffer for a result: the array's own memory if host and device share it."""
        cl = binding()
        with driver_errors(self.device, "placing the result", target.nbytes):
            if self.device.unified:
                flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
                return cl.Buffer(self.context, flags, hostbuf=target)
            return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, target.nbytes)

    def _bring_back(self, buffer: Any, target: Array) -> None:
        """Wait for the device, and bring the result into the array."""
        cl = binding()
        with driver_errors(self.device, "multiplying", target.nbytes):
            if self.device.unified:  # mapping makes the device's writes visible to the host
                mapped, _ = cl.enqueue_map_buffer(
                    self.queue, buffer, cl.map_flags.READ, 0, (target.nbytes,), np.uint8, is_blocking=True
                )
                mapped.base.release(self.queue)
                self.queue.finish()
            else:
                cl.enqueue_copy(self.queue, target, buffer)


def place(context: Any, device: OpenclDevice, x: Array, shared: bool) -> Placed:
    """An array of the host for a device: the host's memory itself, which must not change, or a copy."""
    cl = binding()
    if x.size == 0:
        return Placed(nothing(context), 0, x.shape, (0,) * x.ndim)
    low, high = np.lib.array_utils.byte_bounds(x)
    most = device.allocation_bytes if shared else min(2 * x.nbytes, device.allocation_bytes)
    sparse = high - low > most
    if sparse or not x.flags.aligned or any(s % x.itemsize for s in x.strides):
        x = np.ascontiguousarray(x)
        low, high = np.lib.array_utils.byte_bounds(x)
    memory: Any = (ctypes.c_uint8 * (high - low)).from_address(low)
    memory.array = x  # pyopencl keeps the buffer's memory alive, and this attribute its owner
    how = cl.mem_flags.USE_HOST_PTR if shared else cl.mem_flags.COPY_HOST_PTR
    with driver_errors(device, "placing an operand", high - low):
        buffer = cl.Buffer(context, cl.mem_flags.READ_ONLY | how, hostbuf=np.frombuffer(memory, np.uint8))
    start = (x.ctypes.data - low) // x.itemsize
    return Placed(buffer, start, x.shape, _steps(x))


def _steps(x: Array) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(s // x.itemsize for s in x.strides)


@functools.lru_cache(maxsize=CONTEXTS)
def nothing(context: Any) -> Any:
    """A buffer for arrays without elements, which is never read."""
    return binding().Buffer(context, binding().mem_flags.READ_WRITE, 16)


@bounded(16)
def host_products(device: OpenclDevice) -> HostProducts:
    """The products of one device: one context and queue for each process."""
    return HostProducts(device)
