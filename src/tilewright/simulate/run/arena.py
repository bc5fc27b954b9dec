"""Host memory that is the global memory of simulated GPUs, and the addresses of allocations in it."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import LaunchError
from tilewright.ground.native import pages
from tilewright.simulate.state import SLACK_BYTES


class Arena:
    """A zeroed range of host memory with slack on both sides.

    `at` is the host address of the first byte, a multiple of the page size; such an arena is never released. `address`
    is that of the first byte after the leading slack. A `shared` arena has a descriptor, by which other processes map
    it, slack included.

    Raises LaunchError: the host does not have that range of addresses.
    """

    def __init__(self, size_bytes: int, at: int | None = None, *, shared: bool = False) -> None:
        self.size_bytes = size_bytes
        self.descriptor: int | None = None
        total = -(-(size_bytes + 2 * SLACK_BYTES) // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            if shared:
                self._map: Any
                self._map, self.descriptor = pages.reserved_for_sharing(total)
            else:
                self._map = pages.reserved(total) if at is None else pages.reserved_at(at - SLACK_BYTES, total)
        except OSError as error:
            raise LaunchError(
                f"the host must have {total:,} bytes of address space for simulated memory ({error}); "
                "pass `memory=Memory(capacity_bytes=...)` with less"
            ) from error
        self._anchor = ctypes.c_char.from_buffer(self._map)
        self.address = ctypes.addressof(self._anchor) + SLACK_BYTES

    def close(self) -> None:
        """Close the descriptor of a shared arena; processes that map it keep it."""
        if self.descriptor is not None:
            os.close(self.descriptor)

    def clear(self, offset: int, count: int) -> None:
        """Make bytes zero again; whole pages are released, not written."""
        start, end = self.address + offset, self.address + offset + count
        first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if last <= first:
            ctypes.memset(start, 0, count)
            return
        ctypes.memset(start, 0, first - start)
        pages.zero(first, last - first, shared=self.descriptor is not None)
        ctypes.memset(last, 0, end - last)

    def bytes_at(self, offset: int, count: int) -> npt.NDArray[np.uint8]:
        """A writable view of bytes; it keeps the arena alive."""
        return np.frombuffer(self._map, np.uint8, count, SLACK_BYTES + offset)


class Addresses:
    """Gives ascending offsets in an arena to fresh allocations; several memories may share it.

    With `once` an offset is given only once, so a pointer that outlives its memory points to no other allocation.
    Retired offsets are given again only when no fresh ones are left. All offsets given so far are below `end`.

    >>> addresses = Addresses(Arena(1 << 20), once=True)
    >>> addresses.fresh(256), addresses.fresh(256), addresses.fresh(1 << 20)
    (0, 256, None)
    """

    def __init__(self, arena: Arena, *, once: bool = False) -> None:
        self.arena = arena
        self.once = once
        self.end = 0
        self._retired: list[tuple[int, int]] = []  # offset and bytes
        self._lock = threading.RLock()  # Python may run a finalizer that returns memory while it is held

    def fresh(self, size_bytes: int, needed_bytes: int | None = None) -> int | None:
        """The offset of `size_bytes` bytes, with at least `needed_bytes` in the arena; None if they do not fit."""
        with self._lock:
            start = self.end
            if start + (size_bytes if needed_bytes is None else needed_bytes) <= self.arena.size_bytes:
                self.end = start + size_bytes
                return start
            for index, (offset, room) in enumerate(self._retired):
                if room >= size_bytes:
                    rest = [(offset + size_bytes, room - size_bytes)] if room > size_bytes else []
                    self._retired[index : index + 1] = rest
                    return offset
            return None

    def takes_back(self, offset: int, size_bytes: int) -> bool:
        """Take the last bytes back, to be fresh again; False if they are not the last."""
        with self._lock:
            last = not self.once and offset + size_bytes == self.end
            if last:
                self.end = offset
            return last

    def retire(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Retire ranges that no memory uses any more, each an offset and a size."""
        with self._lock:
            for offset, size in ranges:
                if self._retired and sum(self._retired[-1]) == offset:
                    self._retired[-1] = (self._retired[-1][0], self._retired[-1][1] + size)
                else:
                    self._retired.append((offset, size))
