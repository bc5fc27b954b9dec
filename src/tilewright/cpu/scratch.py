"""What a call borrows while it runs: argument records, a job, and buffers for every thread; and array addresses.

A scratch is taken out of its thread's store and put back, so a call that starts within another on the same thread (from
a signal handler, say) gets one of its own.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.cpu.pool import JOB_WORDS

Array = npt.NDArray[Any]
#: Words of the longest argument record.
_WORDS = 32
_ALIGNED_BYTES = 64


class _Buffer:
    """Aligned memory that grows to what was ever asked for."""

    def __init__(self) -> None:
        self._held: Array | None = None
        self._bytes = 0
        self._address = 0

    def address(self, size: int) -> int:
        """The address of at least `size` bytes; 0 if none were ever wanted."""
        if self._bytes < size:
            self._held = np.empty(size + _ALIGNED_BYTES, np.uint8)
            start = self._held.ctypes.data
            self._address, self._bytes = start + -start % _ALIGNED_BYTES, size
        return self._address


class Scratch:
    """What one call uses, kept for the next.

    Attributes
    ----------
    record : memoryview
        Room for one argument record, at `record_address`.
    job : memoryview
        A job for the crew, at `job_address`.
    """

    def __init__(self) -> None:
        self._words = np.zeros(_WORDS + JOB_WORDS + 16, np.int64)
        skip = -self._words.ctypes.data % _ALIGNED_BYTES // 8
        words = self._words[skip:]
        self.job = memoryview(words.data)[:JOB_WORDS].cast("B")
        self.job_address = int(words.ctypes.data)
        self.record = memoryview(words.data)[JOB_WORDS:].cast("B")
        self.record_address = self.job_address + 8 * JOB_WORDS
        self._buffers: list[tuple[_Buffer, ...]] = []
        self._table: Array = np.empty(0, np.int64)
        self._made: tuple[tuple[int, ...], int] = ((), 0)
        self._address = 0

    def buffers(self, needs: tuple[int, ...], threads: int) -> int:
        """The address of a table with, for each thread, the addresses of buffers of at least so many bytes."""
        if self._made != (needs, threads):
            while len(self._buffers) < threads:
                self._buffers.append(tuple(_Buffer() for _ in needs))
            rows = [[x.address(n) for x, n in zip(row, needs, strict=True)] for row in self._buffers[:threads]]
            self._table = np.array(rows, np.int64)
            self._address = int(self._table.ctypes.data)
            self._made = needs, threads
        return self._address


class Store(threading.local):
    """The scratches of each thread that no call uses."""

    def __init__(self) -> None:
        self.free: list[Scratch] = []

    def take(self) -> Scratch:
        """A scratch; give it back by appending it to `free`."""
        return self.free.pop() if self.free else Scratch()


@functools.cache
def store() -> Store:
    """The store of the process."""
    return Store()


@functools.cache
def packer(words: int) -> struct.Struct:
    """Writes a record of signed 64-bit words."""
    return struct.Struct(f"{words}q")


@functools.cache
def address_reader() -> Callable[[Array], int]:
    """The fastest way to an array's address that this interpreter allows.

    `ndarray.ctypes.data` takes 2 us. CPython's `id` is the object's address, and the first field of an array after the
    object header is its data pointer; where a look at known arrays does not confirm that, the slow way is taken.

    Source: NumPy C API, "Python types and C structures", PyArrayObject.
    """
    offset, word = object.__basicsize__, ctypes.c_void_p.from_address

    def fast(array: Array) -> int:
        return word(id(array) + offset).value or 0

    def slow(array: Array) -> int:
        return int(array.ctypes.data)

    known = np.arange(12.0)
    if sys.implementation.name != "cpython" or any(fast(x) != slow(x) for x in (known, known[3:], known[::-1])):
        return slow
    return fast
