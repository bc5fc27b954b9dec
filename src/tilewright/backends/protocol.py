"""What a device is to the rest of the house: the records it answers with, and the protocol of those that multiply.

`inventory` holds the table of backends. Who adds one writes a module with `describe`, with `opened` where it multiplies
arrays of the host (a `Backend`), and with `arrays_of` where a library's arrays are on it, and adds a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tilewright.errors import DeviceError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tilewright.problem.kind import Kind

    Array = npt.NDArray[Any]

Extents = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """One device, or what stands where one is missing."""

    device: str  #: What `device=` and `--device` take.
    name: str  #: Its maker's name for it; "" where it is missing.
    kind: str
    units: int = 0  #: Threads of the processor, multiprocessors, compute units; 0 where that is not known.
    memory_bytes: int = 0  #: Its own; 0 where that is not known.
    commands: tuple[str, ...] = ()  #: What runs on it.
    features: tuple[str, ...] = ()  #: What it can do.
    missing: str = ""  #: Why it cannot be used, and what to do; "" where it can.


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
class Ranked:
    """What is known of a kernel for a product, before it multiplies."""

    name: str  #: The kernel's, in the catalogue.
    seconds: float  #: For one matrix.
    limiter: str  #: What the time goes to.
    waves: float  #: Blocks over those that the device holds at once.
    source: str  #: Where the time comes from: "estimated"; "tuned", where `tilewright tune` timed it.
    bound: str = ""  #: How far a result may be from the exact one; "" where it has the canonical bits.


@dataclass(frozen=True, slots=True)
class Planned:
    """What a backend will do for a product."""

    #: How operands are read. On the processor "packed" or "tile registers": blocks packed for vectors or for tile
    #: registers; "skinny": B in place for few rows (or columns) of the result; "small": all in place by a kernel for
    #: exact extents, once 10,000 matrices have been seen (32, where that kernel is on disk).
    path: str
    #: Of the sums, as they will be made: canonical where the device has no kernel for another that was asked for.
    order: Literal["canonical", "tf32x3", "fast"]
    #: What the kernel is made for; the packed one, where the path is "small". A `KernelKey` on the processor.
    kernel: Any
    tile: Any  #: The (packed) kernel's tile and cache blocks, in elements.
    parts: int  #: Rectangles that one matrix of the result is cut into.
    threads: int  #: How many threads, or groups of them, work at them.
    buffer_bytes: int  #: Packing buffers of all threads, for row-major operands.
    flops: int  #: Multiplications and additions of real numbers, or the algebra's in their places.
    text: str = field(repr=False, compare=False)  #: Path, kernel and tile in a few words.
    #: How far the sums may be from the exact ones; "" where they are canonical.
    bound: str = field(default="", kw_only=True)
    #: The kernels that may multiply, the quickest first: that is the one that will. Of GPUs alone.
    ranking: tuple[Ranked, ...] = field(default=(), repr=False, kw_only=True)


#: What devices say to truth values as they are that have no units for bits.
IN_WORDS = "truth values must be in words of 32 of them"


class Backend(Protocol):
    """A device that multiplies arrays of the host, in canonical order."""

    @property
    def name(self) -> str:
        """The device's name, for people."""

    def can(self, kind: Kind) -> str:
        """Why it cannot multiply these; "" where it can."""

    def plan(self, arrays: Strided, kind: Kind, threads: int) -> Planned:
        """What :meth:`multiply_into` will do for arrays of these shapes and strides."""

    def multiply_into(
        self, a: Array, b: Array, out: Array, kind: Kind, threads: int | None = None, more: Sequence[Array] = ()
    ) -> None:
        """Out = a b.

        Parameters
        ----------
        a, b, out : ndarray, shapes (..., m, k), (..., k, n) and (..., m, n)
            Any strides; the axes before the last two broadcast to `out`'s. `out` shares no bytes with the operands.
        kind : Kind
            What the arrays' elements are taken for, the accumulator, and what is done to the sums.
        threads : int, optional
            At most so many; the process's limit by default.
        more : sequence of ndarray
            Operands of the finish, of `out`'s shape.
        """


def require(device: Backend, kind: Kind) -> None:
    """Refuse a product that a device cannot make: every product and plan goes through here first.

    Raises DeviceError.
    """
    why_not = device.can(kind)
    if why_not:
        raise DeviceError(f"{device.name}: {why_not}")


class Rungs(Backend, Protocol):
    """A backend whose own kernels are rungs of the ladder."""

    def timed(self, a: Array, b: Array, kind: Kind, form: Any) -> tuple[Array, float, float]:
        """The product by a kernel of that form, and the seconds of its first and second launch."""

    def repeated(self, a: Array, b: Array, kind: Kind, form: Any) -> tuple[Callable[[], None], Callable[[], Array]]:
        """What launches a kernel of that form to its end, as often as it is called, and what fetches the product."""


class DeviceArrays(Protocol):
    """The arrays of one product that are on a device: what is done with them there."""

    def seen(self, name: str, value: Any) -> Any:
        """An operand as what has its shape and its dtype of NumPy's: itself, where it has these."""

    def check(self, name: str, value: Any) -> None:
        """Refuse an array that no kernel can read where it is; those of the host are copied."""

    def output(self, out: Any, shape: Extents, dtype: np.dtype[Any]) -> Any:
        """The array for a result: `out`, if it fits, or a new one."""

    def converted(self, name: str, x: Any, wanted: np.dtype[Any]) -> Any:
        """An operand in a dtype that kernels read."""

    def multiply_into(self, a: Any, b: Any, out: Any, kind: Kind, more: Sequence[Any], shape: Extents) -> None:
        """Out = a b, of `shape`, as :meth:`Backend.multiply_into`; the operands may be 1-D, and may share memory."""
