"""What stands for `cuda.core`'s views of arrays in numba-cuda, which ask the driver where memory lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.drivers.gpu import SimulatedGpu
from tilewright.programs.arguments import ArrayShape
from tilewright.programs.host_arrays import row_major, span

_DLPACK_CPU = 1  # kDLCPU of dlpack.h


class HeldMemory:
    """Device memory for as long as this object lives."""

    def __init__(self, gpu: SimulatedGpu, size: int) -> None:
        self._gpu = gpu
        self.size = size  #: Bytes.
        self.handle = 0  #: Device address.
        with gpu.call():
            self.handle = gpu.allocate(size)

    def __del__(self) -> None:
        if self.handle and not self._gpu.closed and self._gpu.memory.extent(self.handle):  # it may have been reset
            self._gpu.free(self.handle)


class HostPointer(int):
    """The lowest address of a host array, which knows how much may be copied from there, and back to there.

    numba-cuda copies as many bytes as all elements have, from an array's first element on: beyond the memory of an
    array whose strides are negative or 0, and back into one that must not be written.

    >>> x = np.broadcast_to(np.float32(1), 8)
    >>> pointer = HostPointer.of(x)
    >>> x.nbytes, pointer.readable_bytes, pointer.writable_bytes
    (32, 4, 0)
    """

    readable_bytes: int
    writable_bytes: int

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> HostPointer:
        """That of an array."""
        low, high = span(array)
        pointer = cls(low)
        pointer.readable_bytes = high - low
        pointer.writable_bytes = high - low if array.flags.writeable else 0
        return pointer


@dataclass(frozen=True, slots=True)
class ViewLayout:
    """How a view's elements lie."""

    strides_in_bytes: tuple[int, ...]
    is_contiguous_c: bool
    is_contiguous_f: bool

    @property
    def is_contiguous_any(self) -> bool:
        """Whether elements lie one after the other in some order of axes."""
        return self.is_contiguous_c or self.is_contiguous_f


@dataclass(eq=False)
class ArrayView:
    """An array in memory of the host or the device, as `cuda.core.utils.StridedMemoryView` describes it."""

    ptr: int
    shape: tuple[int, ...]
    strides_in_bytes: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: Any  #: What keeps the memory alive.
    readonly: bool = False

    def __post_init__(self) -> None:
        forward = ArrayShape(self.dtype, self.shape, self.strides_in_bytes, self.readonly)
        backward = ArrayShape(self.dtype, self.shape[::-1], self.strides_in_bytes[::-1], self.readonly)
        self._layout = ViewLayout(self.strides_in_bytes, forward.layout == "C", backward.layout == "C")

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
        return tuple(stride // max(self.dtype.itemsize, 1) for stride in self.strides_in_bytes)

    @classmethod
    def from_array_interface(cls, value: Any) -> ArrayView:
        """A view of a NumPy array or scalar."""
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        return cls(HostPointer.of(array), array.shape, array.strides, array.dtype, array, not array.flags.writeable)

    @classmethod
    def from_any_interface(cls, value: Any, stream_ptr: Any = None) -> ArrayView:
        """A view of an array of the host, or of an object with the interface of CUDA arrays."""
        if hasattr(value, "__cuda_array_interface__"):
            return cls.from_cuda_array_interface(value, stream_ptr)
        return cls.from_array_interface(value)

    @classmethod
    def from_cuda_array_interface(cls, value: Any, stream_ptr: Any = None) -> ArrayView:
        """A view of an array on the device."""
        described = value.__cuda_array_interface__
        dtype, shape = np.dtype(described["typestr"]), tuple(described["shape"])
        strides = described.get("strides") or row_major(shape, dtype.itemsize)
        return cls(described["data"][0] or 0, shape, tuple(strides), dtype, value, bool(described["data"][1]))

    @classmethod
    def from_dlpack(cls, value: Any, stream_ptr: Any = None) -> ArrayView:
        """A view of an array of the host.

        Raises BufferError: it lies on another device.
        """
        if value.__dlpack_device__()[0] != _DLPACK_CPU:
            raise BufferError("a simulated GPU must be given arrays of the host or its own (got one of another device)")
        return cls.from_array_interface(np.from_dlpack(value))

    @classmethod
    def from_buffer(
        cls, buffer: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, *, dtype: Any = None, **_: Any
    ) -> ArrayView:
        """A view of device memory; strides in elements, C order by default."""
        kind = np.dtype(dtype)
        elements = row_major(shape, 1) if strides is None else strides
        in_bytes = tuple(stride * kind.itemsize for stride in elements)
        return cls(int(buffer.handle), tuple(shape), in_bytes, kind, buffer)
