"""The first place of an event: the lowest block and thread of each site, in whatever order the threads ran.

A handler whose launch memory begins with a :class:`Places` table calls `tw_places_note` (`places.c`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.header import header

Place = tuple[int, int, int]
_NUMBERS = header(Path(__file__).with_name("places.h")).numbers
#: Sites that have a row; later sites are counted, but have no place.
ROWS, _THREAD_BITS = _NUMBERS["TW_PLACES_ROWS"], _NUMBERS["TW_PLACES_THREAD_BITS"]

#: The C part that records places.
PART = bitcode(Path(__file__).with_name("places.c"))


class Places:
    """The table that handlers write: one word a site, the complement of block and thread, so that 0 means none."""

    def __init__(self) -> None:
        self.table: npt.NDArray[Any] = np.zeros(ROWS, np.uint64)

    def first(self, row: int, grid: Place, block: Place) -> tuple[Place, Place] | None:
        """Block and thread, x first; None if nothing was recorded.

        >>> places = Places()
        >>> places.table[2] = ~np.uint64(5 << 10 | 33)
        >>> places.first(2, (4, 2, 1), (32, 2, 1)), places.first(3, (4, 2, 1), (32, 2, 1))
        (((1, 1, 0), (1, 1, 0)), None)
        """
        if row >= ROWS or not self.table[row]:
            return None
        key = int(~self.table[row])
        return place(key >> _THREAD_BITS, grid), place(key & ((1 << _THREAD_BITS) - 1), block)


def place(linear: int, extents: Place) -> Place:
    """The (x, y, z) of a block of a grid, or of a thread of a block, by its number."""
    x, y, _ = extents
    return linear % x, linear // x % y, linear // (x * y)
