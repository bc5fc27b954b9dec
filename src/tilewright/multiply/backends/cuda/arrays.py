"""Arrays on an NVIDIA GPU as operands and results: kernels read them in place, on the caller's stream.

Any object with `__cuda_array_interface__` is one, such as CuPy's, PyTorch's and numba-cuda's, or with DLPack alone. The
result is an array of A's library. The host does not wait for the GPU.

NumPy arrays at the device's addresses represent those of the GPU for shapes and strides; their elements are never read.

Source: CUDA Array Interface, version 3 (numba-cuda's documentation); DLPack, Python specification.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.backends.cuda import current, products
from tilewright.multiply.backends.cuda.launches import RESULT, Launches, pointer
from tilewright.multiply.backends.cuda.owned import Owned
from tilewright.multiply.backends.dlpack import CUDA_DEVICES, dlpack_device
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.kind import Kind
from tilewright.simulate.programs.array_arguments import array_shape, row_major
from tilewright.simulate.programs.optional import require

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
#: DLPack's number of the default stream, whose handle is 0.
_DEFAULT_STREAM = 1


@dataclass(frozen=True, slots=True)
class Library:
    """A library with arrays on GPUs."""

    name: str  #: The module that defines the class, loaded if such arrays exist.
    type: str
    empty: Callable[[Any, Any, Shape, np.dtype[Any]], Any]  #: Module, an array beside it, shape, dtype -> a new array.
    #: Module -> the stream that its work goes to now; None if the arrays name their stream.
    stream: Callable[[Any], int | None]
    #: Module, an array -> one that its interface describes fully: torch's does not mention negated elements.
    plain: Callable[[Any, Any], Any] = lambda _, array: array
    #: Module -> whether it records products now for arrays that do not say so: torch's in forward mode.
    records: Callable[[Any], bool] = lambda _: False
    #: Module, an array that `empty` made -> the library's own array; its type if these are two.
    result: Callable[[Any, Any], Any] = lambda _, array: array


#: The libraries that results can be made by.
LIBRARIES = (
    Library(
        "cupy", "ndarray", lambda cupy, _, shape, kind: cupy.empty(shape, kind),
        lambda cupy: int(cupy.cuda.get_current_stream().ptr),
    ),
    Library(
        "torch", "Tensor",
        lambda torch, beside, shape, kind: torch.empty(shape, dtype=getattr(torch, kind.name), device=beside.device),
        lambda torch: int(torch.cuda.current_stream().cuda_stream),
        lambda torch, x: x if x.requires_grad and torch.is_grad_enabled() else x.detach().resolve_neg(),
        lambda torch: torch.autograd.forward_ad._current_level >= 0,
    ),
    Library(
        "numba.cuda.cudadrv.devicearray", "DeviceNDArray",
        lambda _, beside, shape, kind: sys.modules["numba.cuda"].device_array(shape, kind), lambda _: None,
    ),
    # JAX's arrays keep their values; so the result is memory of ours, which JAX takes over when it is written.
    Library(
        "jax", "Array", lambda _, beside, shape, kind: Owned(shape, kind), lambda _: None,
        result=lambda jax, array: jax.dlpack.from_dlpack(array),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """An array on a GPU, as its library describes it."""

    owner: Any  #: The array.
    #: A NumPy array at the device's address, whose elements must not be accessed.
    pointer: Array
    readonly: bool
    stream: int | None  #: The stream that its elements are made on; None if it does not matter.
    #: Whether its library may use the memory again once the call returns, whatever stream still reads it: so it is with
    #: DLPack, whose consumer holds the memory until its own work is done.
    is_lent: bool = False

    @property
    def shape(self) -> Shape:
        """Its extents."""
        return self.pointer.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""
        return self.pointer.dtype


def view(name: str, value: Any, stream: int = 0) -> View:
    """An array as its interface describes it; one with DLPack alone is made ready for work on `stream`.

    Raises ArgumentTypeError: the value is not on a GPU, has a dtype that kernels do not read, or has no interface
    because torch tracks its gradient.
    """
    library = library_of(value)
    value = value if library is None else library.plain(sys.modules[library.name], value)
    if of_jax(value) and dlpack_device(value) in CUDA_DEVICES:
        return _from_dlpack(name, value, stream)  # its other interface orders no streams
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except RuntimeError as error:
        if "grad" not in str(error):  # a numba-cuda array whose GPU is gone
            raise ArgumentTypeError(f"`{name}` must be on the GPU that is current ({error})") from error
        raise ArgumentTypeError(f"`{name}` must be without a gradient (got one that torch tracks: {error})") from error
    if interface is None and dlpack_device(value) in CUDA_DEVICES:
        return _from_dlpack(name, value, stream)
    if interface is None:
        raise ArgumentTypeError(
            f"`{name}` must be on the GPU like the other arrays (got {_described(value)}); copy it there"
        )
    if interface.get("mask") is not None:
        raise ArgumentTypeError(f"`{name}` must be without a mask (got {type(value).__name__} with one); fill it first")
    try:
        described = array_shape(value)
    except TypeError:
        raise _unreadable(name, repr(interface["typestr"])) from None
    assert described is not None
    kind = described.dtype
    if kind.kind == "V":  # a dtype that NumPy lacks: its library names it
        kind = _named(name, str(getattr(value, "dtype", kind)))
    found = pointer(int(interface["data"][0] or 0), described.shape, described.strides, kind)
    return View(value, found, described.readonly, interface.get("stream"))


def _from_dlpack(name: str, value: Any, stream: int) -> View:
    """An array that cuda.core reads by DLPack."""
    reader = require("cuda.core.utils", "Reading DLPack").StridedMemoryView
    try:
        found = reader.from_dlpack(value, stream_ptr=stream or _DEFAULT_STREAM)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"`{name}` must be an array that DLPack can share (got {_described(value)}: {error}); copy it, or pass "
            "one with __cuda_array_interface__"
        ) from error
    kind = found.dtype if found.dtype is not None else _named(name, str(getattr(value, "dtype", "no dtype of NumPy's")))
    rows = row_major(found.shape, kind.itemsize)
    steps = rows if found.strides is None else tuple(step * kind.itemsize for step in found.strides)
    return View((value, found), pointer(found.ptr, found.shape, steps, kind), found.readonly, stream, is_lent=True)


def interface(value: Any, library: Library | None) -> dict[str, Any]:
    """An array's interface, by DLPack if it has no other; A's library says on which stream it is made ready.

    Raises AttributeError: it has neither; ArgumentTypeError: DLPack does not share it; RuntimeError: torch's, of a
    tensor that requires a gradient.
    """
    by_dlpack = of_jax(value) or not hasattr(value, "__cuda_array_interface__")
    if not by_dlpack or dlpack_device(value) not in CUDA_DEVICES:
        found: dict[str, Any] = value.__cuda_array_interface__
        return found
    seen = view("", value, current_stream(library))
    at = seen.pointer
    kind = at.dtype.str if at.dtype.isbuiltin == 1 else f"|V{at.itemsize}"
    data = int(at.ctypes.data), seen.readonly
    described = {"data": data, "shape": at.shape, "strides": at.strides, "typestr": kind, "stream": seen.stream}
    return described | {"lent": seen}


def _described(value: Any) -> str:
    """A value that is not on the GPU, in words, with its device if it has one."""
    where = getattr(value, "device", None)
    return type(value).__name__ if where is None else f"{type(value).__name__} on {where}"


def _named(name: str, kind: str) -> np.dtype[Any]:
    """The dtype that an array's library names.

    Raises ArgumentTypeError: kernels read no dtype of that name.
    """
    try:
        return element(kind.removeprefix("torch.")).numpy
    except KeyError:
        raise _unreadable(name, kind) from None


def _unreadable(name: str, kind: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"`{name}` must be of numbers that kernels read (got {kind}); convert it on the GPU, or multiply arrays of the "
        "host"
    )


class Noted:
    """A placeholder for arrays of one layout: launches of its products are recorded, and not made."""

    def __init__(self, address: int, shape: Shape, strides: Shape | None, typestr: str, dtype: str = "") -> None:
        self.launches: Launches | None = None
        self.dtype = dtype  #: The library's name of it, where `typestr` says none.
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "strides": strides,
            "typestr": typestr,
            "version": 3,
        }

    def result(self, shape: Shape, kind: np.dtype[Any]) -> Noted:
        """The placeholder for the array that the library would make."""
        return Noted(RESULT, shape, None, kind.str, kind.name)


@dataclass(frozen=True, slots=True)
class CudaArrays:
    """The arrays of one product."""

    library: Library | None  #: A's.
    beside: Any  #: A; the result is on the same GPU.

    @classmethod
    def of(cls, a: Any, b: Any) -> CudaArrays:
        """The library of the result."""
        return cls(library_of(a), a)

    def seen(self, name: str, value: Any) -> View:
        """The array's view."""
        return view(name, value, current_stream(self.library))

    def check(self, name: str, value: Any) -> None:
        """Raise for an array that kernels cannot read: of another byte order, or of the host and not a number."""
        if isinstance(value, np.ndarray) and value.size == 1:
            return
        found = value if isinstance(value, View) else self.seen(name, value)
        if not found.dtype.isnative:
            raise ArgumentTypeError(
                f"`{name}` must be in this machine's byte order (got {found.dtype}); swap its bytes on the host"
            )

    def output(self, out: Any, shape: Shape, wanted: np.dtype[Any]) -> Any:
        """`out`, if it fits, or a new array of A's library."""
        if out is None:
            if isinstance(self.beside, Noted):
                return self.beside.result(shape, wanted)
            if self.library is None:
                raise ArgumentTypeError(
                    f"`out` must be given for arrays of {type(self.beside).__module__}, which Tilewright cannot make; "
                    "pass an array of CuPy's, torch's or numba-cuda's"
                )
            return self.library.empty(sys.modules[self.library.name], self.beside, shape, wanted)
        if of_jax(out):
            raise ArgumentTypeError(
                "`out` must be an array that may be written (got JAX's, which keep their values); leave it out, or "
                "pass one of CuPy's, torch's or numba-cuda's"
            )
        if negated(out):
            raise ArgumentValueError(
                "`out` must hold its elements' own signs (got a tensor whose elements torch negates when it reads "
                "them); pass out.resolve_neg()"
            )
        found = self.seen("out", out)
        if found.shape != shape or found.dtype != wanted:
            raise ArgumentValueError(
                f"`out` must have the product's shape {shape} and dtype {wanted} (got {found.shape} and {found.dtype})"
            )
        if found.readonly:
            raise ArgumentValueError("`out` must be writable (this output array is read-only); pass a copy")
        if any(step == 0 and extent > 1 for step, extent in zip(found.pointer.strides, shape, strict=True)):
            raise ArgumentValueError(
                f"`out` must have separate memory for each element (got strides {found.pointer.strides} of shape "
                f"{shape}); pass an array that repeats none"
            )
        return out

    def result(self, made: Any) -> Any:
        """A new array that :meth:`output` made, once it is written, as A's library has it."""
        library = self.library
        return made if library is None or isinstance(made, Noted) else library.result(sys.modules[library.name], made)

    def converted(self, name: str, x: View, wanted: np.dtype[Any]) -> View:
        """The operand itself: the kernel that reads it converts it.

        Raises ArgumentTypeError: kernels for GPUs have no complex numbers.
        """
        if x.dtype.kind == "c":
            raise ArgumentTypeError(f"`{name}` must be real on a GPU (got {x.dtype}); multiply arrays of the host")
        return x

    def _operand(self, value: Any) -> View | products.Number:
        """An operand of an epilogue."""
        if isinstance(value, np.ndarray):
            return products.Number(value.reshape(()))
        return self.seen("epilogue_args", value)

    def multiply_into(self, a: View, b: View, out: Any, kind: Kind, more: Sequence[Any], shape: Shape) -> None:
        """Launch out = a b, once for each matrix, and copies of operands that no kernel reads in place.

        Raises DeviceError: no kernel takes such arrays; ArgumentValueError: the arrays belong to several streams.
        """
        into, rest = self.seen("out", out), [self._operand(x) for x in more]
        said = (a.stream, b.stream, *(x.stream for x in rest if isinstance(x, View)))
        stream = current.stream(stream_of(self.library, said))
        column, row = b.pointer.ndim == 1, a.pointer.ndim == 1

        def placed(x: Array) -> Array:
            """An array of the result's shape, with the axes added that the result lacks for 1-D operands."""
            x = x[..., None] if column else x
            return x[..., None, :] if row else x

        found = products.launches(
            a.pointer[None] if row else a.pointer,
            b.pointer[:, None] if column else b.pointer,
            placed(into.pointer),
            kind,
            [placed(np.broadcast_to(x.pointer, shape)) if isinstance(x, View) else x for x in rest],
        )
        if isinstance(out, Noted):
            out.launches = found
        else:
            found.issue(stream)
            if any(x.is_lent for x in (a, b, *rest) if isinstance(x, View)):
                current.wait(stream)


def current_stream(library: Library | None) -> int:
    """The handle of the stream that a library uses now; that of the default stream where it says none."""
    own = None if library is None else library.stream(sys.modules[library.name])
    return _handle(own or 0)


def stream_of(library: Library | None, said: Sequence[int | None]) -> int:
    """The handle of the caller's stream: the library's current one, which must be that of the arrays.

    Raises ArgumentValueError: the streams differ.
    """
    own = None if library is None else library.stream(sys.modules[library.name])
    if not own and not any(said):
        return 0
    found = {_handle(one) for one in (*said, own) if one is not None}
    if len(found) > 1:
        raise ArgumentValueError(
            f"operands must be made on the stream that is current (got streams {sorted(found)}); let one wait for the "
            "others, or make them on one"
        )
    return found.pop() if found else 0


def _handle(stream: int) -> int:
    """A stream's handle; the default stream has two numbers."""
    return 0 if stream == 1 else int(stream)


def negated(value: Any) -> bool:
    """Whether an array's library negates its elements when it reads them; the interface does not tell."""
    ask = getattr(value, "is_neg", None)
    return ask is not None and bool(ask())


def of_jax(value: Any) -> bool:
    """Whether an array is JAX's, whose programs rely on its values: its interface does not mark it as read-only."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def library_of(value: Any) -> Library | None:
    """The library of an array; None if it is not in the table."""
    kind: Any = type(value)
    try:
        return _library(kind)
    except LookupError:
        return None


@functools.lru_cache(maxsize=64)  # for speed: every product comes here
def _library(kind: Any) -> Library:
    """Raises LookupError: none. That is not kept, for a library may be imported later."""
    for row in LIBRARIES:
        module = sys.modules.get(row.name)
        if module is not None and issubclass(kind, getattr(module, row.type, ())):
            return row
    raise LookupError
