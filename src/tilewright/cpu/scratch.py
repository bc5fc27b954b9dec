"""What a call borrows while it runs: buffers to pack into and a record for the kernel's arguments; and array addresses.

A scratch is taken out of its thread's store and put back, so a call that starts within another on the same thread (from
a signal handler, say) gets one of its own.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: Words of the longest argument record.
_WORDS = 32


class Scratch:
    """Buffers of one call, kept for the next; none grows beyond what its kernels need."""

    def __init__(self) -> None:
        self._record = ctypes.create_string_buffer(8 * _WORDS)
        self.record = memoryview(self._record).cast("B")
        self.record_address = ctypes.addressof(self._record)
        self._held: dict[str, tuple[Array, int]] = {}
        self.sizes = {"a": 0, "b": 0, "sums": 0}

    def address(self, name: str, size: int) -> int:
        """The address of at least `size` bytes, aligned to 64."""
        if self.sizes.get(name, 0) < size:
            raw = np.empty(size + 64, np.uint8)
            self._held[name] = raw, raw.ctypes.data + -raw.ctypes.data % 64
            self.sizes[name] = size
        found = self._held.get(name)
        return found[1] if found else 0


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

    import sys

    known = np.arange(12.0)
    if sys.implementation.name != "cpython" or any(fast(x) != slow(x) for x in (known, known[3:], known[::-1])):
        return slow
    return fast
