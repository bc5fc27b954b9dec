"""The interface of devices: the records that describe them, and the protocols of those that multiply.

`inventory` holds the table of backends. A new one is a row, and a module with `describe`, with `opened` if it
multiplies arrays of the host (a `Backend`), and with `arrays_of` if some library has arrays on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from tilewright.errors import DeviceError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tilewright.multiply.backends.estimates import Candidate
    from tilewright.multiply.backends.ranked import Ranked
    from tilewright.multiply.backends.tuning_db import Key
    from tilewright.multiply.problem.kind import Kind

    Array = npt.NDArray[Any]

Extents = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """One device, or the note of a missing one."""

    device: str  #: The name that `device=` and `--device` take.
    name: str  #: Its maker's name for it; "" if it is missing.
    kind: str
    units: int = 0  #: Threads of the processor, multiprocessors or compute units; 0 if unknown.
    memory_bytes: int = 0  #: Bytes of its own memory; 0 if unknown.
    commands: tuple[str, ...] = ()  #: The kinds of kernels that run on it.
    features: tuple[str, ...] = ()  #: Its features.
    missing: str = ""  #: Why it cannot be used, and what to do; "" if it can.


@dataclass(frozen=True, slots=True)
class Strided:
    """Shapes and strides of a product's arrays."""

    #: `a`, `b`, `out`: shapes (..., m, k), (..., k, n) and (..., m, n); the axes before the last two broadcast to
    #: `out`'s.
    a: Extents
    #: `a_strides`, `b_strides`, `out_strides`: in bytes.
    a_strides: Extents
    b: Extents
    b_strides: Extents
    out: Extents
    out_strides: Extents
    more: tuple[Extents, ...] = ()  #: Strides of the finish's operands, which have `out`'s shape.


@dataclass(frozen=True, slots=True)
class Planned:
    """A backend's plan of a product."""

    #: How operands are read. On the processor "packed" or "tile registers": blocks packed for vectors or for tile
    #: registers; "skinny": B in place for few rows (or columns) of the result; "lanes": few results of a long k in
    #: vector lanes; "small": all in place by a kernel for exact extents, once 10,000 matrices have been seen (32,
    #: where that kernel is on disk).
    path: str
    #: The order of summation that will be used: canonical if the device has no kernel for the requested one.
    order: Literal["canonical", "tf32x3", "fast"]
    #: The kernel's key, on the processor a `KernelKey`; for the path "small" that of the packed kernel.
    kernel: Any
    tile: Any  #: The (packed) kernel's tile and cache blocks, in elements.
    parts: int  #: Rectangles that one matrix of the result is cut into.
    threads: int  #: Threads, or groups of threads, that work on them.
    buffer_bytes: int  #: Packing buffers of all threads, for row-major operands.
    flops: int  #: Multiplications and additions of real numbers, or the algebra's operations.
    text: str = field(repr=False, compare=False)  #: Path, kernel and tile in a few words.
    #: The error bound of the sums; "" if they are canonical.
    bound: str = field(default="", kw_only=True)
    #: For GPUs and OpenCL devices, the possible kernels, the fastest first, which is the one that will run.
    ranking: tuple[Ranked, ...] = field(default=(), repr=False, kw_only=True)


#: The reason why devices without units for bits refuse booleans as bytes.
IN_WORDS = "booleans must be packed in words of 32"


class Backend(Protocol):
    """A device that multiplies arrays of the host, in canonical order."""

    @property
    def name(self) -> str:
        """The device's name for reports."""

    def refusal(self, kind: Kind) -> str:
        """Why the device cannot multiply a kind; "" if it can."""

    def plan(self, arrays: Strided, kind: Kind, threads: int) -> Planned:
        """The plan of :meth:`multiply_into` for arrays of these shapes and strides."""

    def multiply_into(
        self, a: Array, b: Array, out: Array, kind: Kind, threads: int | None = None, more: Sequence[Array] = ()
    ) -> None:
        """Compute out = a b.

        `a`, `b`, `out` (shapes (..., m, k), (..., k, n) and (..., m, n)): any strides; the axes before the last two
        broadcast to `out`'s. `out` shares no bytes with the operands. `kind`: the dtypes that elements are read as, the
        accumulator, and the finish of the sums. `threads`: most threads; the process's limit by default. `more`:
        operands of the finish, of `out`'s shape.
        """


def require(device: Backend, kind: Kind) -> None:
    """Raise if a device cannot make a product; every product and plan calls this first.

    Raises DeviceError.
    """
    why_not = device.refusal(kind)
    if why_not:
        raise DeviceError(f"{device.name}: {why_not}")


@dataclass(frozen=True, slots=True)
class Choices:
    """The configurations of a device that can multiply a product, all with the same bits, for a tuner."""

    key: Key  #: The key of their times.
    ranking: tuple[Ranked, ...]  #: The estimate of each, the fastest first.
    #: (index in the ranking, A, B) -> a function that multiplies, waits, and returns seconds by the device's clock, or
    #: None for the host's. None for kernels of a simulated GPU, whose times are predicted.
    prepare: Callable[[int, Array, Array], Callable[[], float | None]] | None
    forget: Callable[[], None]  #: Makes later products use the times that are kept by then.
    candidates: Sequence[Candidate] = ()  #: For a GPU, the kernel of each.


@runtime_checkable
class Tunable(Backend, Protocol):
    """A backend with several configurations for a product."""

    def choices(self, kind: Kind, extents: tuple[int, int, int]) -> Choices:
        """The configurations for one product of row-major matrices; `extents` are m, n and k.

        Raises DeviceError: there is only one.
        """


class DeviceArrays(Protocol):
    """The operations on one product's arrays in a device's memory."""

    def seen(self, name: str, value: Any) -> Any:
        """An object with the operand's shape and NumPy dtype: the operand itself if it has these."""

    def check(self, name: str, value: Any) -> None:
        """Raise for an array that no kernel can read in place; arrays of the host are copied."""

    def output(self, out: Any, shape: Extents, dtype: np.dtype[Any]) -> Any:
        """The array for a result: `out` if it is suitable, or a new one."""

    def result(self, made: Any) -> Any:
        """A new array that :meth:`output` made, once it is written, as the caller gets it."""

    def converted(self, name: str, x: Any, wanted: np.dtype[Any]) -> Any:
        """An operand in a dtype that kernels read."""

    def multiply_into(self, a: Any, b: Any, out: Any, kind: Kind, more: Sequence[Any], shape: Extents) -> None:
        """Compute out = a b, of `shape`, like :meth:`Backend.multiply_into`; operands may be 1-D and share memory."""
