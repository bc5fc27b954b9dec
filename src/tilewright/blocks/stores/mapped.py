"""Mapped files (`np.memmap`): the file is read instead of the map, where the array lies in it in lines."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.blocks.stores.arrays import MemoryStore
from tilewright.blocks.stores.lines import Layout, LinesStore
from tilewright.blocks.stores.store import Store, numbers
from tilewright.errors import ArgumentValueError


def of_array(value: np.memmap[Any, Any], name: str, writable: bool) -> Store:
    """A mapped array, or a view of one.

    Raises ArgumentTypeError: it holds no numbers; ArgumentValueError: it may not be written.

    What lies in its file otherwise than in lines, is changed in memory alone, or in a file of which only the map is
    left, is read through the map.
    """
    if writable and not value.flags.writeable:
        raise ArgumentValueError(f"`{name}` must be writable (got a read-only map of {value.filename}); map it with r+")
    layout = _layout(value)
    path = Path(value.filename).absolute() if value.filename is not None else None
    dtype = numbers(value.dtype, f"`{name}`")
    if layout is None or path is None or not _maps(value, path):
        return MemoryStore(value, type(value).__name__)
    return LinesStore(str(path), "memmap", path, Layout(layout, value.shape, dtype, value.strides), writable=writable)


def _layout(value: np.memmap[Any, Any]) -> int | None:
    """Where in its file the first element of an array lies; None where the map does not hold it in lines."""
    whole = vars(value)["_mmap"]  # None for results of arithmetic, which are memmaps too
    ends = value.strides[-2:]
    if whole is None or value.mode == "c" or not value.size or value.itemsize not in ends or min(value.strides) < 0:
        return None
    begin = np.frombuffer(whole, np.uint8).ctypes.data
    place = value.ctypes.data - begin
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
