"""Where something happened first: the lowest block and thread of each site, whatever order the threads ran in.

A handler whose launch memory begins with a :class:`Places` table calls `tw.places.note`, defined by :data:`NOTE`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.simt.events import FIELDS

Place = tuple[int, int, int]
#: Sites that have a row; those beyond are counted, but have no place.
ROWS = 1 << 14
_THREAD_BITS = 10

NOTE = f"""
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.cttz.i32(i32, i1)

; tw.places.note(slot, warp, launch, counters, row, lanes): count lanes, and keep the first of them if it is the lowest.
define internal void @tw.places.note(ptr %slot, ptr %warp, ptr %launch, ptr %counters, i32 %row, i32 %lanes) noinline {{
entry:
  %nobody = icmp eq i32 %lanes, 0
  br i1 %nobody, label %leave, label %add
add:
  %count = call i32 @llvm.ctpop.i32(i32 %lanes)
  %wide = zext i32 %count to i64
  %old = load i64, ptr %counters
  %new = add i64 %old, %wide
  store i64 %new, ptr %counters
  %known = icmp ult i32 %row, {ROWS}
  br i1 %known, label %keep, label %leave
keep:
  %block.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.block"]}
  %number = load i64, ptr %block.p
  %index.p = getelementptr i8, ptr %warp, i64 {FIELDS["warp.index"]}
  %index = load i32, ptr %index.p
  %first = call i32 @llvm.cttz.i32(i32 %lanes, i1 true)
  %start = shl i32 %index, 5
  %thread = or i32 %start, %first
  %thread.wide = zext i32 %thread to i64
  %high = shl i64 %number, {_THREAD_BITS}
  %key = or i64 %high, %thread.wide
  %inverse = xor i64 %key, -1
  %at = getelementptr i64, ptr %launch, i32 %row
  %before = atomicrmw umax ptr %at, i64 %inverse monotonic
  br label %leave
leave:
  ret void
}}
"""


class Places:
    """The table that handlers write: a word a site, the inverse of block and thread, so that 0 is nothing."""

    def __init__(self) -> None:
        self.table: npt.NDArray[Any] = np.zeros(ROWS, np.uint64)

    def first(self, row: int, grid: Place, block: Place) -> tuple[Place, Place] | None:
        """Block and thread, x first; None where nothing was noted.

        Examples
        --------
        >>> places = Places()
        >>> places.table[2] = ~np.uint64(5 << 10 | 33)
        >>> places.first(2, (4, 2, 1), (32, 2, 1)), places.first(3, (4, 2, 1), (32, 2, 1))
        (((1, 1, 0), (1, 1, 0)), None)
        """
        if row >= ROWS or not self.table[row]:
            return None
        key = int(~self.table[row])
        return _place(key >> _THREAD_BITS, grid), _place(key & ((1 << _THREAD_BITS) - 1), block)


def _place(linear: int, extents: Place) -> Place:
    x, y, _ = extents
    return linear % x, linear // x % y, linear // (x * y)
