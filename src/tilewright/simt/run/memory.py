"""The global memory of a simulated GPU: one arena, allocations in it, and arrays that stay there."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError, LaunchError
from tilewright.simt.translate.state import GLOBAL_BASE, SLACK_BYTES

#: Allocations start at multiples of this, as cudaMalloc's do (CUDA C++ Programming Guide, "Device Memory Accesses").
ALIGNMENT_BYTES = 256
#: Address space of a fresh memory; it is no memory until it is used.
CAPACITY_BYTES = 16 << 30
_NORESERVE = 0x4000  # MAP_NORESERVE on Linux: address space now, pages when they are touched


class Arena:
    """A zeroed stretch of host memory with slack on both sides.

    Attributes
    ----------
    address : int
        Host address of the first byte after the leading slack.
    size_bytes : int
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        total = size_bytes + 2 * SLACK_BYTES
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        try:
            self._map = mmap.mmap(-1, -(-total // mmap.PAGESIZE) * mmap.PAGESIZE, flags=flags)
        except OSError as error:
            raise LaunchError(
                f"the host must have {total:,} bytes of address space for simulated memory ({error}); "
                "pass `memory=Memory(capacity_bytes=...)` with less"
            ) from error
        self._anchor = ctypes.c_char.from_buffer(self._map)
        self.address = ctypes.addressof(self._anchor) + SLACK_BYTES

    def clear(self, offset: int, count: int) -> None:
        """Make bytes zero again; whole pages are given back to the host instead of written."""
        start, end = SLACK_BYTES + offset, SLACK_BYTES + offset + count
        first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if last <= first:
            self._map[start:end] = bytes(count)
            return
        self._map[start:first] = bytes(first - start)
        self._map.madvise(mmap.MADV_DONTNEED, first, last - first)
        self._map[last:end] = bytes(end - last)

    def bytes_at(self, offset: int, count: int) -> npt.NDArray[np.uint8]:
        """A writable view of bytes; it keeps the arena alive."""
        return np.frombuffer(self._map, np.uint8, count, SLACK_BYTES + offset)


class Memory:
    """Global memory of a simulated GPU.

    Parameters
    ----------
    capacity_bytes : int
        Most that can be allocated; pages cost nothing until they are touched.

    Examples
    --------
    >>> memory = Memory(1 << 20)
    >>> x = memory.array(np.arange(4, dtype=np.int32))
    >>> x.to_host().tolist()
    [0, 1, 2, 3]
    """

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self.capacity_bytes = capacity_bytes
        self._arena = Arena(capacity_bytes)
        self.used_bytes = 0

    @property
    def host_address(self) -> int:
        """Host address of the first byte."""
        return self._arena.address

    def allocate(self, size_bytes: int) -> int:
        """Reserve bytes; returns their device address. They read as zero.

        Raises
        ------
        LaunchError
            When the capacity is exceeded.
        """
        offset = -(-self.used_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        if offset + size_bytes > self.capacity_bytes:
            raise LaunchError(
                f"global memory holds {self.capacity_bytes:,} bytes (got a request for {size_bytes:,} with "
                f"{offset:,} in use); make `Memory(capacity_bytes=...)` larger"
            )
        self.used_bytes = offset + size_bytes
        return GLOBAL_BASE + offset

    def release_to(self, used_bytes: int) -> None:
        """Give back everything allocated since `used_bytes` was read; it reads as zero again."""
        if self.used_bytes > used_bytes:
            self._arena.clear(used_bytes, self.used_bytes - used_bytes)
        self.used_bytes = used_bytes

    def clear(self, address: int, size_bytes: int) -> None:
        """Make bytes at a device address zero again, which takes no memory of the host's."""
        self._arena.clear(address - GLOBAL_BASE, size_bytes)

    def view(self, address: int, size_bytes: int) -> npt.NDArray[np.uint8]:
        """The bytes at a device address."""
        return self._arena.bytes_at(address - GLOBAL_BASE, size_bytes)

    def read_text(self, address: int) -> str | None:
        """The zero-terminated text at a device address; None outside what is allocated."""
        offset = address - GLOBAL_BASE
        if not 0 <= offset < self.used_bytes:
            return None
        raw = self._arena.bytes_at(offset, min(self.used_bytes - offset, 1 << 16)).tobytes()
        return raw.split(b"\0", 1)[0].decode(errors="replace")

    def array(self, value: npt.ArrayLike) -> DeviceArray:
        """Copy an array to this memory, C-contiguous."""
        host = np.ascontiguousarray(value)
        if host.dtype.hasobject:
            raise ArgumentTypeError(f"a device array must have a plain dtype (got {host.dtype})")
        device = self.empty(host.shape, host.dtype)
        device.view()[...] = host.reshape(device.shape)
        return device

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> DeviceArray:
        """A new array of zeros in this memory."""
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        if any(extent < 0 for extent in extents):
            raise ArgumentValueError(f"`shape` must have no extent below 0 (got {shape}); 0 makes an empty array")
        size = int(np.prod(extents, dtype=np.int64)) * kind.itemsize
        return DeviceArray(self, self.allocate(max(size, 1)), extents, kind)


class DeviceArray:
    """A C-contiguous array in simulated global memory; it stays there between launches.

    :meth:`Memory.array` and :meth:`Memory.empty` make them; NumPy's functions read a copy.

    Attributes
    ----------
    memory : Memory
    address : int
        Device address of its first element.
    shape, strides, dtype
        As NumPy's; strides in bytes.
    """

    def __init__(self, memory: Memory, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.memory = memory
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.strides = np.empty(shape, np.uint8).strides if 0 in shape else _strides(shape, dtype.itemsize)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def view(self) -> npt.NDArray[Any]:
        """The array's bytes where they are, as a NumPy array that shares them."""
        return self.memory.view(self.address, self.nbytes).view(self.dtype).reshape(self.shape)

    def to_host(self) -> npt.NDArray[Any]:
        """A copy as a NumPy array."""
        return self.view().copy()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a DeviceArray is read by copying it; write .view() to share its memory")
        return self.to_host().astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, address={self.address:#x})"


def _strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= extent
    return tuple(reversed(strides))
