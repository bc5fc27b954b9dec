"""Mapped files (`np.memmap`). An array with contiguous rows or columns is read from the file, not through the map."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import ArgumentValueError
from tilewright.multiply.blocks.stores.arrays import MemoryStore
from tilewright.multiply.blocks.stores.lines import Layout, LinesStore, identity
from tilewright.multiply.blocks.stores.store import Array, Store, bands, numbers


class MapStore(MemoryStore):
    """An array without contiguous rows or columns in its file: read through the map, identified by its file."""

    def __init__(self, array: np.memmap[Any, Any], path: Path, layout: Layout) -> None:
        super().__init__(array, str(path))
        self.path, self.layout = path, layout

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        """As :meth:`Store.read`; releases the pages that it reads, to keep the process small."""
        for some in self._bands(rows):
            super().read(at, some, columns, into[some.start - rows.start : some.stop - rows.start])
            self._drop()

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        """As :meth:`Store.write`; releases the pages that it writes."""
        for some in self._bands(rows):
            super().write(at, some, columns, values[some.start - rows.start : some.stop - rows.start])
            self._drop()

    def _bands(self, rows: slice) -> Iterator[slice]:
        pitch = abs(self.layout.strides[-2]) if len(self.shape) > 1 else 0
        for some in bands(rows.stop - rows.start, pitch):
            yield slice(rows.start + some.start, rows.start + some.stop)

    def _drop(self) -> None:
        """Release the map's pages; data written to a shared map stays in the system's page cache."""
        vars(self.array)["_mmap"].madvise(mmap.MADV_DONTNEED)

    def identity(self) -> dict[str, Any]:
        """As :meth:`Store.identity`."""
        return identity("memmap", self.path, self.layout, self.name)


def of_array(value: np.memmap[Any, Any], name: str, writable: bool) -> Store:
    """A mapped array, or a view of one.

    A copy-on-write map counts as an array in memory, and so does a map whose file was replaced.

    Raises ArgumentTypeError: its elements are not numbers; ArgumentValueError: it is read-only.
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
    """The offset of an array's first element in its file; None if the array is in memory only."""
    whole = vars(value)["_mmap"]  # None for results of arithmetic, which are memmaps too
    if whole is None or value.mode == "c" or not value.size:
        return None
    place = value.ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data
    offset = int(value.offset)
    return offset - offset % mmap.ALLOCATIONGRANULARITY + place if 0 <= place < len(whole) else None


def _maps(value: np.memmap[Any, Any], path: Path) -> bool:
    """Whether `path` still names the mapped file; another file may have replaced it."""
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
