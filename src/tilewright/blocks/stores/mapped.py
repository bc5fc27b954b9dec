"""Mapped files (`np.memmap`): the file is read instead of the map, where the array is in it in lines."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.blocks.stores.arrays import MemoryStore
from tilewright.blocks.stores.lines import Layout, LinesStore, identity
from tilewright.blocks.stores.store import Array, Store, bands, numbers
from tilewright.errors import ArgumentValueError


class MapStore(MemoryStore):
    """A map of a file in which an array is otherwise than in lines: read through the map, known by its file."""

    def __init__(self, array: np.memmap[Any, Any], path: Path, layout: Layout) -> None:
        super().__init__(array, str(path))
        self.path, self.layout = path, layout

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        """As :meth:`Store.read`; pages of the map are given back, which the process would hold to the last."""
        for some in self._bands(rows):
            super().read(at, some, columns, into[some.start - rows.start : some.stop - rows.start])
            self._drop()

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        """As :meth:`Store.write`, of pages likewise."""
        for some in self._bands(rows):
            super().write(at, some, columns, values[some.start - rows.start : some.stop - rows.start])
            self._drop()

    def _bands(self, rows: slice) -> Iterator[slice]:
        pitch = abs(self.layout.strides[-2]) if len(self.shape) > 1 else 0
        for some in bands(rows.stop - rows.start, pitch):
            yield slice(rows.start + some.start, rows.start + some.stop)

    def _drop(self) -> None:
        """Of a map that is shared, what was written stays with the system."""
        vars(self.array)["_mmap"].madvise(mmap.MADV_DONTNEED)

    def identity(self) -> dict[str, Any]:
        """As :meth:`Store.identity`."""
        return identity("memmap", self.path, self.layout, self.name)


def of_array(value: np.memmap[Any, Any], name: str, writable: bool) -> Store:
    """A mapped array, or a view of one.

    What is changed in memory alone, or is in a file of which only the map is left, is an array in memory.

    Raises ArgumentTypeError: it holds no numbers; ArgumentValueError: it may not be written.
    """
    if writable and not value.flags.writeable:
        raise ArgumentValueError(f"`{name}` must be writable (got a read-only map of {value.filename}); map it with r+")
    dtype, offset = numbers(value.dtype, f"`{name}`"), _offset(value)
    path = Path(value.filename or "").absolute()
    if offset is None or not _maps(value, path):
        return MemoryStore(value, type(value).__name__)
    layout = Layout(offset, value.shape, dtype, value.strides)
    if value.itemsize not in value.strides[-2:] or min(value.strides) < 0:
        return MapStore(value, path, layout)
    return LinesStore(str(path), "memmap", path, layout, writable=writable)


def _offset(value: np.memmap[Any, Any]) -> int | None:
    """Where in its file the first element of an array is; None where it is in memory alone."""
    whole = vars(value)["_mmap"]  # None for results of arithmetic, which are memmaps too
    if whole is None or value.mode == "c" or not value.size:
        return None
    place = value.ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data
    offset = int(value.offset)
    return offset - offset % mmap.ALLOCATIONGRANULARITY + place if 0 <= place < len(whole) else None


def _maps(value: np.memmap[Any, Any], path: Path) -> bool:
    """Whether the file of this name is the one that is mapped: another may have taken its place."""
    address = value.ctypes.data
    try:
        inode = path.stat().st_ino
        for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
            span, _, _, _, mapped, *_ = line.split(maxsplit=5)
            first, last = (int(end, 16) for end in span.split("-"))
            if first <= address < last:
                return int(mapped) == inode
    except OSError:
        return False
    return False
