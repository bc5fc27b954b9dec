"""The global memory of a simulated GPU: one arena, allocations in it, and arrays that stay there."""

from __future__ import annotations

import bisect
import ctypes
import functools
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
#: Unused bytes after an allocation where red zones are wanted: as many as it has, between these two.
RED_ZONE_MIN_BYTES, RED_ZONE_MAX_BYTES = 64 << 10, 64 << 20
_NORESERVE = 0x4000  # MAP_NORESERVE on Linux: address space now, pages when they are touched
_FIXED_NOREPLACE = 0x100000  # MAP_FIXED_NOREPLACE on Linux, since 4.17: at this address or not at all


class Arena:
    """A zeroed stretch of host memory with slack on both sides.

    Parameters
    ----------
    size_bytes : int
    at : int, optional
        Host address that the first byte shall have, a multiple of the page size; such an arena is never given back.

    Attributes
    ----------
    address : int
        Host address of the first byte after the leading slack.
    size_bytes : int

    Raises
    ------
    LaunchError
        The host has no such stretch of addresses.
    """

    def __init__(self, size_bytes: int, at: int | None = None) -> None:
        self.size_bytes = size_bytes
        total = -(-(size_bytes + 2 * SLACK_BYTES) // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            self._map: Any = _anywhere(total) if at is None else _exactly(total, at - SLACK_BYTES)
        except OSError as error:
            raise LaunchError(
                f"the host must have {total:,} bytes of address space for simulated memory ({error}); "
                "pass `memory=Memory(capacity_bytes=...)` with less"
            ) from error
        self._anchor = ctypes.c_char.from_buffer(self._map)
        self.address = ctypes.addressof(self._anchor) + SLACK_BYTES

    def clear(self, offset: int, count: int) -> None:
        """Make bytes zero again; whole pages are given back to the host instead of written."""
        start, end = self.address + offset, self.address + offset + count
        first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if last <= first:
            ctypes.memset(start, 0, count)
            return
        ctypes.memset(start, 0, first - start)
        if _libc().madvise(first, last - first, mmap.MADV_DONTNEED):
            ctypes.memset(first, 0, last - first)
        ctypes.memset(last, 0, end - last)

    def bytes_at(self, offset: int, count: int) -> npt.NDArray[np.uint8]:
        """A writable view of bytes; it keeps the arena alive."""
        return np.frombuffer(self._map, np.uint8, count, SLACK_BYTES + offset)


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def _anywhere(total: int) -> mmap.mmap:
    """Private memory where the host likes; given back when nothing refers to it."""
    return mmap.mmap(-1, total, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)


def _exactly(total: int, address: int) -> Any:
    """Private memory at an address."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE | _FIXED_NOREPLACE
    found = _libc().mmap(address, total, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if found != address:  # an old kernel takes the address for a wish
        raise OSError(ctypes.get_errno(), f"address {address:#x} is taken")
    return (ctypes.c_char * total).from_address(address)


class Memory:
    """Global memory of a simulated GPU.

    Parameters
    ----------
    capacity_bytes : int
        Most that can be allocated; pages cost nothing until they are touched.
    arena : Arena, optional
        Host memory to use, of that many bytes or more; a fresh one by default.
    start_bytes : int
        Where in it allocations begin.

    Attributes
    ----------
    red_zones : bool
        Whether allocations from now on are followed by unused bytes.

    Examples
    --------
    >>> memory = Memory(1 << 20)
    >>> x = memory.array(np.arange(4, dtype=np.int32))
    >>> x.to_host().tolist()
    [0, 1, 2, 3]
    """

    def __init__(
        self, capacity_bytes: int = CAPACITY_BYTES, *, arena: Arena | None = None, start_bytes: int = 0
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self._start = start_bytes
        self._arena = arena or Arena(capacity_bytes)
        self.red_zones = False
        self._sizes: dict[int, tuple[int, int, int]] = {}  # offset -> bytes, with the red zone, with padding too
        self._offsets: list[int] = []  # the same, sorted
        self._end = start_bytes  # of the last allocation, aligned
        self._holes: list[tuple[int, int]] = []  # offset and bytes of what was freed below the end, sorted

    @property
    def host_address(self) -> int:
        """Host address of the first byte."""
        return self._arena.address

    @property
    def used_bytes(self) -> int:
        """Bytes from the first to the end of the last allocation: what a kernel may reach."""
        return self._offsets[-1] + self._sizes[self._offsets[-1]][1] if self._offsets else 0

    @property
    def allocated_bytes(self) -> int:
        """Bytes in allocations, with their padding and red zones."""
        return self._end - self._start - sum(size for _, size in self._holes)

    @property
    def limit_bytes(self) -> int:
        """Where allocations must end."""
        return max(self.used_bytes, self._start + self.capacity_bytes)

    def allocate(self, size_bytes: int) -> int:
        """Reserve bytes; returns their device address. They read as zero.

        Raises
        ------
        LaunchError
            When the capacity is exceeded.
        """
        zone = min(max(size_bytes, RED_ZONE_MIN_BYTES), RED_ZONE_MAX_BYTES) if self.red_zones else 0
        taken = -(-(size_bytes + zone) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        for index, (offset, room) in enumerate(self._holes):
            if room >= taken:
                self._holes[index : index + 1] = [(offset + taken, room - taken)] if room > taken else []
                break
        else:
            first = self._end == self._start  # has a red zone before it too
            offset = self._end + (RED_ZONE_MIN_BYTES if first and zone else 0)
            if offset + size_bytes + zone > self._start + self.capacity_bytes:
                raise LaunchError(
                    f"global memory holds {self.capacity_bytes:,} bytes (got a request for {size_bytes:,} with "
                    f"{offset:,} in use); make `Memory(capacity_bytes=...)` larger"
                )
            self._end = offset + taken
        self._sizes[offset] = (size_bytes, size_bytes + zone, taken)
        bisect.insort(self._offsets, offset)
        return GLOBAL_BASE + offset

    def free(self, address: int) -> None:
        """Give back what `allocate` gave; it reads as zero again.

        Raises
        ------
        ArgumentValueError
            The address is not that of an allocation.
        """
        offset = address - GLOBAL_BASE
        if offset not in self._sizes:
            raise ArgumentValueError(f"`address` must be one that `allocate` gave and not yet freed (got {address:#x})")
        _, _, taken = self._sizes.pop(offset)
        self._offsets.pop(bisect.bisect_left(self._offsets, offset))
        self._arena.clear(offset, min(taken, self._arena.size_bytes - offset))
        at = bisect.bisect_left(self._holes, (offset, 0))
        start, end = offset, offset + taken
        if at < len(self._holes) and self._holes[at][0] == end:
            end += self._holes.pop(at)[1]
        if at and sum(self._holes[at - 1]) == start:
            at -= 1
            start = self._holes.pop(at)[0]
        if end == self._end:
            self._end = start
        else:
            self._holes.insert(at, (start, end - start))

    def extent(self, address: int) -> tuple[int, int] | None:
        """Address and bytes of the allocation that an address lies in; None where it lies in none."""
        index = bisect.bisect_right(self._offsets, address - GLOBAL_BASE) - 1
        if index < 0:
            return None
        offset = self._offsets[index]
        size = self._sizes[offset][0]
        return (GLOBAL_BASE + offset, size) if address - GLOBAL_BASE < offset + max(size, 1) else None

    def allocations(self) -> list[tuple[int, int]]:
        """Address and bytes of every allocation, in order."""
        return [(GLOBAL_BASE + offset, self._sizes[offset][0]) for offset in self._offsets]

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
    host_written : bool
        Whether something may have been put into it: by the host, which asked for :meth:`view`, or by a launch.
    """

    def __init__(self, memory: Memory, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.memory = memory
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.host_written = False
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
        self.host_written = True
        return self._elements()

    def _elements(self) -> npt.NDArray[Any]:
        elements: npt.NDArray[Any] = self.memory.view(self.address, self.nbytes).view(self.dtype).reshape(self.shape)
        return elements

    def to_host(self) -> npt.NDArray[Any]:
        """A copy as a NumPy array."""
        return self._elements().copy()

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
