"""Memory that a call uses while it runs: a job, and buffers for every thread.

A scratch is taken out of its thread's store and put back, so a call that starts within another on the same thread (from
a signal handler, say) gets one of its own.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.memo import memo
from tilewright.multiply.backends.cpu.pool import JOB

Array = npt.NDArray[Any]
_ALIGNED_BYTES = 64


class _Buffer:
    """Aligned memory that grows to the largest size requested."""

    def __init__(self) -> None:
        self._held: Array | None = None
        self._bytes = 0
        self._address = 0

    def address(self, size: int) -> int:
        """The address of at least `size` bytes; 0 if none was ever requested."""
        if self._bytes < size:
            self._held = np.empty(size + _ALIGNED_BYTES, np.uint8)
            start = self._held.ctypes.data
            self._address, self._bytes = start + -start % _ALIGNED_BYTES, size
        return self._address


class Scratch:
    """The memory of one call, kept for the next."""

    def __init__(self) -> None:
        self._words = np.zeros(JOB.size // 8 + 8, np.int64)
        words = self._words[-self._words.ctypes.data % _ALIGNED_BYTES // 8 :]
        self.job = memoryview(words.data).cast("B")  #: A job for the crew, at `job_address`.
        self.job_address = int(words.ctypes.data)
        self._buffers: list[tuple[_Buffer, ...]] = []
        self._table: Array = np.empty(0, np.int64)
        self._made: tuple[tuple[int, ...], int] = ((), 0)
        self._address = 0

    def buffers(self, needs: tuple[int, ...], threads: int) -> int:
        """The address of a table with each thread's addresses of buffers of at least so many bytes; 0 for none."""
        if not needs:
            return 0
        if self._made != (needs, threads):
            self._made = ((), 0)  # if memory runs out, no table may point to buffers that have moved
            while len(self._buffers) < threads:
                self._buffers.append(tuple(_Buffer() for _ in needs))
            rows = [[x.address(n) for x, n in zip(row, needs, strict=True)] for row in self._buffers[:threads]]
            self._table = np.array(rows, np.int64)
            self._address = int(self._table.ctypes.data)
            self._made = needs, threads
        return self._address


class Store(threading.local):
    """The unused scratches of each thread."""

    def __init__(self) -> None:
        self.free: list[Scratch] = []

    def take(self) -> Scratch:
        """A scratch; give it back by appending it to `free`."""
        return self.free.pop() if self.free else Scratch()


@memo
def store() -> Store:
    """The store of the process."""
    return Store()
