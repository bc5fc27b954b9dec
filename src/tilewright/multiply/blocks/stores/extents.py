"""The places of arrays on disk, and whether two of them share bytes there or in memory."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tilewright.multiply.blocks.stores.store import Array, Extent, Store, same_file


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
    return found is not None and where is not None and same_file(found.path, where.path)


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
