"""Host memory that stands for global memory of simulated GPUs, and the addresses in it that allocations get."""

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
from tilewright.native import pages
from tilewright.simt.translate.state import SLACK_BYTES


class Arena:
    """A zeroed stretch of host memory with slack on both sides.

    `at` is the host address that the first byte shall have, a multiple of the page size; such an arena is never given
    back. `address` is that of the first byte after the leading slack. One that is `shared` has a descriptor, by which
    other processes map it, slack included.

    Raises LaunchError: the host has no such stretch of addresses.
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
        """Give up the descriptor of a shared one; processes that map it keep it."""
        if self.descriptor is not None:
            os.close(self.descriptor)

    def clear(self, offset: int, count: int) -> None:
        """Make bytes zero again; whole pages are given back to the host instead of written."""
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
    """Offsets in an arena for fresh allocations, one after the other; several memories may share them.

    With `once` each is given once: pointers that outlive their memory then point to no other. What was retired is given
    again only when no fresh ones are left. All that were given are below `end`.

    >>> addresses = Addresses(Arena(1 << 20), once=True)
    >>> addresses.fresh(256), addresses.fresh(256), addresses.fresh(1 << 20)
    (0, 256, None)
    """

    def __init__(self, arena: Arena, *, once: bool = False) -> None:
        self.arena = arena
        self.once = once
        self.end = 0
        self._retired: list[tuple[int, int]] = []  # offset and bytes
        self._lock = threading.RLock()  # Python may collect what gives back while it is held

    def fresh(self, size_bytes: int, needed_bytes: int | None = None) -> int | None:
        """The offset of so many bytes, of which all or the needed ones must be in the arena; None where none are."""
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
        """Give the last bytes back, to be fresh again; False where that cannot be."""
        with self._lock:
            last = not self.once and offset + size_bytes == self.end
            if last:
                self.end = offset
            return last

    def retire(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Bytes that no memory uses any more: of each range its offset and size."""
        with self._lock:
            for offset, size in ranges:
                if self._retired and sum(self._retired[-1]) == offset:
                    self._retired[-1] = (self._retired[-1][0], self._retired[-1][1] + size)
                else:
                    self._retired.append((offset, size))
