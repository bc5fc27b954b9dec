"""Memory that one launch after the other works in.

Instruments need some megabytes a launch. Fresh pages of a host cost several times what clearing memory in use does, so
an area whose arrays are all gone is used again.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import weakref
from collections import defaultdict, deque

import numpy as np
import numpy.typing as npt

#: A large page; a mapping has one more, since it may begin within one.
_LARGE_BYTES = 2 << 20
_NORESERVE = 0x4000  # MAP_NORESERVE on Linux: address space now, pages when they are touched
#: Of an area that waits, so many bytes keep their pages, and so many areas of a size wait.
_KEPT_BYTES, _KEPT_AREAS = 8 << 20, 3

Bytes = npt.NDArray[np.uint8]


class Areas:
    """Areas of zeros, by their sizes: powers of two.

    Examples
    --------
    >>> areas = Areas()
    >>> area = areas.take(100)
    >>> area.size, int(area.max())
    (100, 0)
    """

    def __init__(self) -> None:
        self._waiting: defaultdict[int, deque[mmap.mmap]] = defaultdict(lambda: deque(maxlen=_KEPT_AREAS))
        self._held: dict[int, weakref.ref[Bytes]] = {}

    def take(self, size_bytes: int, *, clear: bool = True) -> Bytes:
        """Zeros that take address space now, and memory where they are touched.

        They are given back when the last array over them is gone. Without `clear` anything may stand there.
        """
        size = max(_LARGE_BYTES, 1 << max(0, size_bytes - 1).bit_length())
        try:
            memory = self._waiting[size].pop()
            if clear:
                np.frombuffer(memory, np.uint8, min(size_bytes, _KEPT_BYTES))[:] = 0
        except IndexError:
            memory = _mapped(size)
        area = np.frombuffer(memory, np.uint8, size_bytes)
        key = id(area)

        def gone(_: object) -> None:  # in any thread, at any time: no lock is taken here
            del self._held[key]
            self._give_back(memory, size)

        self._held[key] = weakref.ref(area, gone)
        return area

    def _give_back(self, memory: mmap.mmap, size: int) -> None:
        if hasattr(mmap, "MADV_DONTNEED") and size > _KEPT_BYTES:
            memory.madvise(mmap.MADV_DONTNEED, _KEPT_BYTES, size - _KEPT_BYTES)
        if hasattr(mmap, "MADV_DONTNEED") or size <= _KEPT_BYTES:
            self._waiting[size].append(memory)


def _mapped(size: int) -> mmap.mmap:
    """A fresh mapping, of large pages where the host has them."""
    memory = mmap.mmap(-1, size + _LARGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux: a fault for each 2 MiB and not for each 4 KiB
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


@functools.cache
def areas() -> Areas:
    """The process's areas."""
    return Areas()
