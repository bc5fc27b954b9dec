"""Memory that successive launches use again.

An instrument needs some megabytes for each launch. Fresh pages of a host cost several times as much as clearing pages
in use. So an area whose arrays are all gone is used again, with the pages that were touched, up to a total size.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from collections import deque

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.memo import memo
from tilewright.ground.native.pages import DISCARDS, reserved, resident_pages

#: A large page; a mapping has one more, because it may start inside one.
_LARGE_BYTES = 2 << 20
KEPT_BYTES_MAX = 4 << 30  #: Larger areas are not used again.
_KEPT_AREAS = 8  # the most recently released ones; a check uses four at a time
_KEPT_BYTES = 96 << 20  # total size of the pages that they keep

Bytes = npt.NDArray[np.uint8]


class Areas:
    """Zeroed areas, by size. Areas that may be used again have sizes of powers of two.

    >>> areas = Areas()
    >>> area = areas.take(100)
    >>> area.size, int(area.max())
    (100, 0)
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, mmap.mmap, list[slice]]] = deque(maxlen=_KEPT_AREAS)
        self._held: dict[int, weakref.ref[Bytes]] = {}

    def take(self, size_bytes: int, *, clear: bool = True) -> Bytes:
        """Zeroed memory: address space now, pages when they are touched.

        It is released when the last array over it is gone. Without `clear` it may have any contents.
        """
        if size_bytes > KEPT_BYTES_MAX or not DISCARDS:
            return np.frombuffer(_mapped(size_bytes), np.uint8, size_bytes)
        size = max(_LARGE_BYTES, 1 << max(0, size_bytes - 1).bit_length())
        memory, used = self._waiting_of(size) or (_mapped(size), [])
        area = np.frombuffer(memory, np.uint8, size_bytes)
        if clear:
            whole = np.frombuffer(memory, np.uint8, size)
            for part in used:
                whole[part] = 0
        key, total, advice, page = id(area), _KEPT_BYTES, mmap.MADV_DONTNEED, mmap.PAGESIZE
        address, resident = area.ctypes.data, resident_pages()

        # It runs in any thread, at any time, even at interpreter shutdown: it takes no lock and reads no global.
        def gone(_: object) -> None:
            del self._held[key]
            pages, used, held = resident(address, size), [], 0
            for _, _, parts in self._waiting.copy():
                for part in parts:
                    held += part.stop - part.start
            if held + pages.count(1) * page > total:
                pages = bytearray(size // page)
            at = 0
            while at < size // page:  # what is not resident may have been swapped out
                start = pages.find(1, at)
                start = size // page if start < 0 else start
                if start > at:
                    memory.madvise(advice, at * page, (start - at) * page)
                at = pages.find(0, start)
                at = size // page if at < 0 else at
                if at > start:
                    used.append(slice(start * page, at * page))
            self._waiting.append((size, memory, used))

        self._held[key] = weakref.ref(area, gone)
        return area

    def _waiting_of(self, size: int) -> tuple[mmap.mmap, list[slice]] | None:
        """A kept area of a size, if there is one, and the parts of it that are not zero."""
        with contextlib.suppress(IndexError):  # another thread took the last one
            for _ in range(len(self._waiting)):
                found, memory, used = self._waiting.pop()
                if found == size:
                    return memory, used
                self._waiting.appendleft((found, memory, used))
        return None


def _mapped(size: int) -> mmap.mmap:
    """A fresh mapping, of large pages where the host has them."""
    size = (-(-size // _LARGE_BYTES) + 1) * _LARGE_BYTES
    memory = reserved(size)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux: one page fault for 2 MiB, not for 4 KiB
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


@memo
def areas() -> Areas:
    """The process's areas."""
    return Areas()
