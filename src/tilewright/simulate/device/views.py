"""Replacements for `cuda.core`'s array views in numba-cuda, which ask the driver where memory is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.programs.array_arguments import ArrayShape, row_major, span

_DLPACK_CPU = 1  # kDLCPU of dlpack.h


class HeldMemory:
    """Device memory that lives as long as this object."""

    def __init__(self, gpu: SimulatedGpu, size: int) -> None:
        self._gpu = gpu
        self.size = size  #: In bytes.
        self.handle = 0  #: Device address.
        with gpu.call():
            self.handle = gpu.allocate(size)

    def __del__(self) -> None:
        if self.handle and not self._gpu.closed and self._gpu.memory.extent(self.handle):  # else already free
            self._gpu.free(self.handle)


class HostPointer(int):
    """The lowest address of a host array, with the sizes that may be copied from and to it.

    numba-cuda copies the size of all elements, starting at an array's first element. For negative or zero strides that
    is beyond the array's memory, and a read-only array must not be written.

    >>> x = np.broadcast_to(np.float32(1), 8)
    >>> pointer = HostPointer.of(x)
    >>> x.nbytes, pointer.readable_bytes, pointer.writable_bytes
    (32, 4, 0)
    """

    readable_bytes: int
    writable_bytes: int

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> HostPointer:
        """The pointer of an array."""
        low, high = span(array)
        pointer = cls(low)
        pointer.readable_bytes = high - low
        pointer.writable_bytes = high - low if array.flags.writeable else 0
        return pointer


@dataclass(frozen=True, slots=True)
class ViewLayout:
    """The layout of a view's elements."""

    strides_in_bytes: tuple[int, ...]
    is_contiguous_c: bool
    is_contiguous_f: bool

    @property
    def is_contiguous_any(self) -> bool:
        """Whether elements are contiguous in some order of axes."""
        return self.is_contiguous_c or self.is_contiguous_f


@dataclass(eq=False)
class ArrayView:
    """An array in host or device memory, like `cuda.core.utils.StridedMemoryView`."""

    ptr: int
    shape: tuple[int, ...]
    strides_in_bytes: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: Any  #: Keeps the memory alive.
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
        """Strides in elements."""
        return tuple(stride // max(self.dtype.itemsize, 1) for stride in self.strides_in_bytes)

    @classmethod
    def from_array_interface(cls, value: Any) -> ArrayView:
        """A view of a NumPy array or scalar."""
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        return cls(HostPointer.of(array), array.shape, array.strides, array.dtype, array, not array.flags.writeable)

    @classmethod
    def from_any_interface(cls, value: Any, stream_ptr: Any = None) -> ArrayView:
        """A view of a host array, or of an object with the CUDA array interface."""
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
        """A view of a host array.

        Raises BufferError: the array is on another device.
        """
        if value.__dlpack_device__()[0] != _DLPACK_CPU:
            raise BufferError("a simulated GPU takes only host arrays and its own (got one of another device)")
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
