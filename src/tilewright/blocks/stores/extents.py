"""Where arrays are on disk, and whether two of them share bytes there or in memory."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tilewright.blocks.stores.store import Array, Store


@dataclass(frozen=True, slots=True)
class Extent:
    """A file or a folder, and what of it an array takes.

    >>> Extent(Path("x"), (0, 10)).meets(Extent(Path("x"), (10, 20)))
    False
    """

    path: Path
    #: The first byte and the one behind the last; a name for what is in pieces; None where nothing is known.
    part: tuple[int, int] | str | None = None

    def meets(self, other: Extent) -> bool:
        """Whether two arrays may share bytes."""
        one, two = self.part, other.part
        if not _same(self.path, other.path):
            return False
        if one is None or two is None:
            return True
        if isinstance(one, str) or isinstance(two, str):
            return one == two  # what is in pieces shares none with what is in one
        return one[0] < two[1] and two[0] < one[1]

    def is_in(self, place: Path) -> bool:
        """Whether the file is this one, or is in this folder, by whatever names."""
        file = self.path.resolve()
        return place.exists() and any(_same(x, place) for x in (file, *file.parents))


def _same(one: Path, other: Path) -> bool:
    """Whether two paths name one file; by their text where there is none, as for arrays in memory of zarr and HDF5."""
    try:
        return one.samefile(other)
    except OSError:
        return one.absolute() == other.absolute()


def of_map(array: Array) -> Extent | None:
    """That of an array that is a map of a file, or a view of one; None for others."""
    found = _map_of(array)
    if found is None or not array.size:
        return None
    first, end = byte_bounds(array)
    offset = int(found.offset)
    moved = offset - offset % mmap.ALLOCATIONGRANULARITY - np.frombuffer(vars(found)["_mmap"], np.uint8).ctypes.data
    return Extent(Path(found.filename or ""), (first + moved, end + moved))


def _map_of(array: Array) -> np.memmap[Any, Any] | None:
    found: Any = array
    while isinstance(found, np.ndarray) and not isinstance(found, np.memmap):
        found = found.base
    return found if isinstance(found, np.memmap) and vars(found)["_mmap"] is not None else None


def one_file(store: Store, other: Store) -> bool:
    """Whether two arrays are in one file, so that writing one changes the times by which the other is known."""
    found, where = store.extent(), other.extent()
    return found is not None and where is not None and _same(found.path, where.path)


def overlap(value: Any, store: Store, other_value: Any, other: Store) -> bool:
    """Whether two arrays share bytes; each as the caller gave it, and its store."""
    if value is other_value:
        return True
    if isinstance(value, np.ndarray) and isinstance(other_value, np.ndarray):
        if np.shares_memory(value, other_value):
            return True
        one, two = _map_of(value), _map_of(other_value)
        if one is not None and two is not None and vars(one)["_mmap"] is vars(two)["_mmap"]:
            return False  # rows or columns of one map, whose bytes may be between each other
    found, where = store.extent(), other.extent()
    return found is not None and where is not None and found.meets(where)
