"""Guards around memory that a kernel may write: a pattern that every stray write changes.

`HostArrays` guards the launch's own arguments. `watched()` guards each arena of a launch, that is global, shared and
local memory, in the 64 KiB that are mapped before and after it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np

from tilewright.simulate.run import allocations, resident
from tilewright.simulate.run.allocations import Arena
from tilewright.simulate.state import SLACK_BYTES

_FILL = 0xA5


class HostArrays:
    """A host buffer; the kernel's arguments are slices of its inside, and every other byte must keep its value."""

    ELEMENTS, MARGIN = 256, 512

    def __init__(self) -> None:
        step = self.ELEMENTS * 4 + self.MARGIN
        self._pattern = np.random.default_rng(7).integers(0, 256, 2 * step + self.MARGIN, dtype=np.uint8)
        self._buffer = self._pattern.copy()
        self._inside = [slice(self.MARGIN + i * step, self.MARGIN + i * step + self.ELEMENTS * 4) for i in range(2)]

    def arguments(self) -> tuple[np.ndarray, np.ndarray]:
        """The input and output arrays, with fresh contents."""
        source, target = (self._buffer[part].view(np.uint32) for part in self._inside)
        source[:] = np.arange(self.ELEMENTS, dtype=np.float32).view(np.uint32) ^ np.arange(
            self.ELEMENTS, dtype=np.uint32
        )
        target[:] = 0
        return source, target

    def changed(self) -> int:
        """How many bytes outside the arguments changed; puts them back."""
        difference = self._buffer != self._pattern
        for part in self._inside:
            difference[part] = False
        count = int(np.count_nonzero(difference))
        self._buffer[difference] = self._pattern[difference]
        return count


class _Guarded(Arena):
    """An arena whose slack holds the pattern."""

    def fill(self) -> None:
        """Write the pattern on both sides."""
        ctypes.memset(self.address - SLACK_BYTES, _FILL, SLACK_BYTES)
        ctypes.memset(self.address + self.size_bytes, _FILL, SLACK_BYTES)

    def changed(self) -> int:
        """How many bytes of the slack changed."""
        sides = self.bytes_at(-SLACK_BYTES, SLACK_BYTES), self.bytes_at(self.size_bytes, SLACK_BYTES)
        return sum(SLACK_BYTES - int(np.count_nonzero(side == _FILL)) for side in sides)


class Watch:
    """The arenas of the launches inside `watched()`."""

    def __init__(self) -> None:
        self.arenas: list[_Guarded] = []

    def arena(self, size_bytes: int) -> _Guarded:
        """A new arena, watched."""
        made = _Guarded(size_bytes)
        made.fill()
        self.arenas.append(made)
        return made

    def changed(self) -> int:
        """How many bytes of all slack changed."""
        return sum(arena.changed() for arena in self.arenas)


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch every arena that is made inside."""
    watch = Watch()
    with mock.patch.object(allocations, "Arena", watch.arena), mock.patch.object(resident, "Arena", watch.arena):
        yield watch
