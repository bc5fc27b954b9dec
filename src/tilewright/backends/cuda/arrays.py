"""Arrays that lie on an NVIDIA GPU, as operands and results: kernels read them where they are, on the caller's stream.

Whatever has `__cuda_array_interface__` is one: CuPy's, PyTorch's and numba-cuda's. The result is of A's library.
Nothing is copied, nothing waits for the GPU, and all memory that a launch takes is what the caller gave.

NumPy's arrays stand for those of the GPU while shapes and strides are worked out: their elements are never read.

Source: CUDA Array Interface, version 3 (numba-cuda's documentation).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.backends import ranking
from tilewright.backends.cuda import current
from tilewright.backends.cuda.device import words_of
from tilewright.errors import ArgumentTypeError, ArgumentValueError, DeviceError
from tilewright.kernels.record import Record
from tilewright.native.once import bounded
from tilewright.problem.dtypes import dtype, element
from tilewright.problem.kind import Kind
from tilewright.programs import Program
from tilewright.programs.arguments import array_shape

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
#: What a record's operands end with that would need memory of the launch's own.
_NOT_GIVEN = ("boxes", "work")


@dataclass(frozen=True, slots=True)
class Library:
    """A library with arrays on GPUs."""

    name: str  #: Of the module that is loaded where such arrays are about, which has the class.
    type: str
    empty: Callable[[Any, Any, Shape, np.dtype[Any]], Any]  #: Module, an array beside it, shape, dtype -> a new array.
    stream: Callable[[Any], int | None]  #: Module -> the stream that its work goes to now; None where arrays say it.


#: Whose arrays results may be.
LIBRARIES = (
    Library(
        "cupy", "ndarray", lambda cupy, _, shape, kind: cupy.empty(shape, kind),
        lambda cupy: int(cupy.cuda.get_current_stream().ptr),
    ),
    Library(
        "torch", "Tensor",
        lambda torch, beside, shape, kind: torch.empty(shape, dtype=getattr(torch, kind.name), device=beside.device),
        lambda torch: int(torch.cuda.current_stream().cuda_stream),
    ),
    Library(
        "numba.cuda.cudadrv.devicearray", "DeviceNDArray",
        lambda _, beside, shape, kind: sys.modules["numba.cuda"].device_array(shape, kind), lambda _: None,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """An array on a GPU, as its library describes it."""

    owner: Any  #: The array.
    #: An array of NumPy's at the device's address, whose elements must not be touched.
    pointer: Array
    readonly: bool
    stream: int | None  #: On which it is made; None where that does not matter.

    @property
    def shape(self) -> Shape:
        """Its extents."""
        return self.pointer.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""
        return self.pointer.dtype


class _Memory:
    """Device memory, as NumPy asks for the host's."""

    def __init__(self, address: int, shape: Shape, strides: Shape, kind: np.dtype[Any]) -> None:
        plain = kind if kind.isbuiltin == 1 else np.dtype(f"V{kind.itemsize}")
        self.__array_interface__ = {
            "data": (address, False), "shape": shape, "strides": strides, "typestr": plain.str, "version": 3,
        }  # fmt: skip


def view(name: str, value: Any) -> View:
    """What an array says of itself.

    Raises ArgumentTypeError: it does not lie on a GPU, or says nothing while it has a gradient.
    """
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except RuntimeError as error:  # torch's, of a tensor that requires a gradient
        raise ArgumentTypeError(f"`{name}` must be without a gradient (got one that torch tracks: {error})") from error
    if interface is None:
        raise ArgumentTypeError(
            f"`{name}` must lie on the GPU as the other operand does (got {type(value).__name__}); copy it there"
        )
    described = array_shape(value)
    assert described is not None
    kind = described.dtype
    if kind.kind == "V":  # a dtype that NumPy has not: its library names it
        kind = element(str(value.dtype).removeprefix("torch.")).numpy
    memory = _Memory(int(interface["data"][0] or 0), described.shape, described.strides, kind)
    return View(value, np.asarray(memory).view(kind), described.readonly, interface.get("stream"))


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch, before it is made."""

    config: Any
    kernel: Any
    words: list[Any]  #: The kernel's parameters.


class Noted:
    """An array of a layout, at an address that stands for any: its products are noted, and not launched."""

    def __init__(self, address: int, shape: Shape, strides: Shape | None, typestr: str) -> None:
        self.launches: list[Launch] = []
        self.address = address
        self.__cuda_array_interface__ = {
            "data": (address, False), "shape": shape, "strides": strides, "typestr": typestr, "version": 3,
        }  # fmt: skip

    def result(self, shape: Shape, kind: np.dtype[Any]) -> Noted:
        """The one that the library would make."""
        return Noted(RESULT, shape, None, kind.str)


#: Addresses that stand for those of A, B and C: no array reaches from one to the next.
OPERANDS, RESULT = (1 << 50, 2 << 50), 3 << 50


@dataclass(frozen=True, slots=True)
class CudaArrays:
    """The arrays of one product."""

    library: Library | None  #: A's.
    beside: Any  #: A, where the result lies too.

    @classmethod
    def of(cls, a: Any, b: Any) -> CudaArrays:
        """The library of the result."""
        return cls(library_of(a), a)

    def seen(self, name: str, value: Any) -> View:
        """The array as it lies."""
        return view(name, value)

    def check(self, name: str, value: Any) -> None:
        """Refuse an array that kernels cannot read: its matrices must be row-major, its elements aligned."""
        if not isinstance(value, View):
            value = view(name, value)
        pointer = value.pointer
        if not pointer.dtype.isnative or not pointer.flags.aligned:
            raise ArgumentTypeError(f"`{name}` must be aligned, in this machine's byte order (got {pointer.dtype})")
        if pointer.size and not _matrix(pointer).flags.c_contiguous:
            raise ArgumentValueError(
                f"`{name}` must have row-major matrices on a GPU (got strides {pointer.strides} of shape "
                f"{pointer.shape}); copy it"
            )

    def output(self, out: Any, shape: Shape, wanted: np.dtype[Any]) -> Any:
        """`out`, if it fits, or a new array of A's library."""
        if out is None:
            if isinstance(self.beside, Noted):
                return self.beside.result(shape, wanted)
            if self.library is None:
                raise ArgumentTypeError(
                    f"`out` must be given for arrays of {type(self.beside).__module__}, which Tilewright makes none of"
                )
            return self.library.empty(sys.modules[self.library.name], self.beside, shape, wanted)
        found = view("out", out)
        if found.shape != shape or found.dtype != wanted:
            raise ArgumentValueError(
                f"`out` must have the product's shape {shape} and dtype {wanted} (got {found.shape} and {found.dtype})"
            )
        if found.readonly:
            raise ArgumentValueError("`out` must be writable (this output array is read-only); pass a copy")
        return out

    def converted(self, name: str, x: View, wanted: np.dtype[Any]) -> View:
        """The operand, which must have the dtype that kernels read.

        Raises ArgumentTypeError: it has another.
        """
        if x.dtype != wanted:
            raise ArgumentTypeError(f"`{name}` must be {wanted} on a GPU (got {x.dtype}); convert it there first")
        return x

    def multiply_into(self, a: View, b: View, out: Any, kind: Kind, more: Sequence[Any], shape: Shape) -> None:
        """Launch out = a b, once for each matrix.

        Raises DeviceError: no kernel takes such arrays; ArgumentValueError: they were made on several streams, or `out`
        shares memory with an operand.
        """
        into = view("out", out)
        if any(np.may_share_memory(into.pointer, one.pointer) for one in (a, b)):
            raise ArgumentValueError("`out` must share no memory with the operands on a GPU; give another array")
        stream = current.stream(stream_of(self.library, (a.stream, b.stream)))
        left = a.pointer if a.pointer.ndim > 1 else a.pointer[None]
        right = b.pointer if b.pointer.ndim > 1 else b.pointer[:, None]
        m, k, n = *left.shape[-2:], right.shape[-1]
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        c = into.pointer.reshape(*batch, m, n)
        noted = out.launches if isinstance(out, Noted) else None
        if k == 0:
            if noted is not None:
                raise DeviceError("a product without steps must be set to zero (got k of 0); nothing is launched")
            for i in np.ndindex(batch):
                at, size = c[i].ctypes.data, c[i].nbytes
                current.check(current.driver().cuMemsetD8Async(at, 0, size, stream.handle), "setting to zero")
            return
        ready, launch = _ready(kind, m, n, k, current.device()), current.names().launch
        x, y, z = (_spread(one.view(ready.kind), batch) for one in (left, right, c))
        for i in np.ndindex(batch):
            for start in range(0, m, ready.rows):
                part = slice(start, start + ready.rows)
                found = ready.of(x[i][part], y[i], z[i][part])
                if noted is None:
                    launch(stream, found.config, found.kernel, *found.words)
                else:
                    noted.append(found)


def stream_of(library: Library | None, said: Sequence[int | None]) -> int:
    """The handle of the caller's stream: that which the library uses now, and arrays say that they are made on.

    Raises ArgumentValueError: these are several.
    """
    own = None if library is None else library.stream(sys.modules[library.name])
    found = {_handle(one) for one in (*said, own) if one is not None}
    if len(found) > 1:
        raise ArgumentValueError(
            f"operands must be made on the stream that is current (got streams {sorted(found)}); let one wait for the "
            "others, or make them on one"
        )
    return found.pop() if found else 0


def _handle(stream: int) -> int:
    """That of a stream, of which the default one has two numbers."""
    return 0 if stream == 1 else int(stream)


def library_of(value: Any) -> Library | None:
    """Whose array a value is; None for that of a library which is not known here."""
    for row in LIBRARIES:
        module = sys.modules.get(row.name)
        if module is not None and isinstance(value, getattr(module, row.type)):
            return row
    return None


def _matrix(pointer: Array) -> Array:
    """The first matrix of an array; a vector is one, and so is a number, which the dots keep from being read."""
    place: tuple[Any, ...] = (*(0,) * max(0, pointer.ndim - 2), ...)
    first: Array = pointer[place]
    return first


def _spread(pointer: Array, batch: Shape) -> Array:
    """Row-major matrices for each of a batch; may be written, as the kernels' programs ask, though none is but C.

    NumPy may give an axis of one element any stride; one that is not the matrix' would have it copied by the record.
    """
    shape = (*batch, *pointer.shape[-2:])
    steps = (*np.broadcast_to(pointer, shape).strides[:-2], shape[-1] * pointer.itemsize, pointer.itemsize)
    return np.lib.stride_tricks.as_strided(pointer, shape, steps)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A kernel that is loaded on a GPU, for products of one shape."""

    record: Record
    program: Program
    kernel: Any
    kind: np.dtype[Any]  #: Of the operands and of C, as the kernel takes them.
    rows: int  #: Of C, that a launch makes.

    def of(self, a: Array, b: Array, c: Array) -> Launch:
        """What computes c = a b."""
        shape = self.record.launch_rule(len(c), c.shape[1], a.shape[1])
        arguments = self.record.arguments(a, b, c)
        words = words_of(self.program, self.program.marshal(arguments, lambda array: int(array.ctypes.data)))
        config = current.names().LaunchConfig(grid=shape.grid, block=shape.block, shmem_size=shape.shared_bytes)
        return Launch(config, self.kernel, words)


@bounded(1024)
def _ready(kind: Kind, m: int, n: int, k: int, device: current.Current) -> _Ready:
    """The first kernel of the ranking that reads operands where they lie.

    Raises DeviceError: there is none.
    """
    taken = ranking.summed(kind) if kind.a == "uint32" else kind.a
    made = taken if kind.out == "uint32" else kind.out
    plain = kind.algebra is None and kind.finish is None and kind.a == kind.b and not kind.continues
    if plain and (taken == ranking.summed(kind) or kind.order != "canonical"):
        found = ranking.chosen(kind, m, n, k, device.record, device.compute_capability, _NOT_GIVEN)
        for one in found.candidates:
            if one.dtype == taken and dtype(one.dtype).product == made:
                program = one.record.program(one.dtype, device.compute_capability)
                rows = ranking.rows_of(one.record, m)
                return _Ready(one.record, program, current.loaded(program, device), element(taken).numpy, rows)
    raise DeviceError(
        f"{device.name}: no kernel reads such operands where they lie (got {kind.a} and {kind.b}, summed in "
        f'{kind.accumulator} to {kind.out}, order {kind.order}); halves want order="fast", other operands one dtype of '
        "float32, float64 and int32, and neither `epilogue` nor `algebra`; or multiply arrays of the host"
    )
