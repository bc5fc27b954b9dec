"""Memory that one launch after the other works in.

Instruments need some megabytes a launch. Fresh pages of a host cost several times what clearing memory in use does, so
an area whose arrays are all gone is used again.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from collections import deque

import numpy as np
import numpy.typing as npt

from tilewright.native.once import once
from tilewright.native.pages import reserved

#: A large page; a mapping has one more, since it may begin within one.
_LARGE_BYTES = 2 << 20
_WAITING_BYTES = 4 << 30  # an area that is larger does not wait for its next use
_KEPT_AREAS = 8  # so many wait, those given back last: a check takes four at a time
_KEPT_BYTES = 8 << 20  # pages that each of them keeps

Bytes = npt.NDArray[np.uint8]


class Areas:
    """Areas of zeros, by their sizes: powers of two as far as they are used again.

    >>> areas = Areas()
    >>> area = areas.take(100)
    >>> area.size, int(area.max())
    (100, 0)
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, mmap.mmap]] = deque(maxlen=_KEPT_AREAS)
        self._held: dict[int, weakref.ref[Bytes]] = {}

    def take(self, size_bytes: int, *, clear: bool = True) -> Bytes:
        """Zeros that take address space now, and memory where they are touched.

        They are given back when the last array over them is gone. Without `clear` anything may stand there.
        """
        if size_bytes > _WAITING_BYTES or not hasattr(mmap, "MADV_DONTNEED"):
            return np.frombuffer(_mapped(size_bytes), np.uint8, size_bytes)
        size = max(_LARGE_BYTES, 1 << max(0, size_bytes - 1).bit_length())
        memory = self._waiting_of(size)
        if memory is None:
            memory = _mapped(size)
        elif clear:
            np.frombuffer(memory, np.uint8, min(size_bytes, _KEPT_BYTES))[:] = 0
        area = np.frombuffer(memory, np.uint8, size_bytes)
        key, kept, advice = id(area), _KEPT_BYTES, mmap.MADV_DONTNEED

        # It runs in any thread, at any time, in an interpreter that ends too: it takes no lock and reads no global.
        def gone(_: object) -> None:
            del self._held[key]
            if size > kept:
                memory.madvise(advice, kept, size - kept)
            self._waiting.append((size, memory))

        self._held[key] = weakref.ref(area, gone)
        return area

    def _waiting_of(self, size: int) -> mmap.mmap | None:
        """An area of a size, if one waits."""
        with contextlib.suppress(IndexError):  # another thread took the last one
            for _ in range(len(self._waiting)):
                found, memory = self._waiting.pop()
                if found == size:
                    return memory
                self._waiting.appendleft((found, memory))
        return None


def _mapped(size: int) -> mmap.mmap:
    """A fresh mapping, of large pages where the host has them."""
    size = (-(-size // _LARGE_BYTES) + 1) * _LARGE_BYTES
    memory = reserved(size)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux: a fault for each 2 MiB and not for each 4 KiB
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


@once
def areas() -> Areas:
    """The process's areas."""
    return Areas()
