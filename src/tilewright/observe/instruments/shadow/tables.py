"""The cells of affine accesses, as tables for the quick tests: eight cells a row.

A row is a run of consecutive cells, of which some are *used*. For shared memory it also has, for each cell, which lanes
of a warp access it, and which of the accesses does. For a cell that several accesses touch it has what the exact
judgement would have left there after one access after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.observe.instruments.shadow.cells import RUN, SITE_MAX, SITE_SHIFT, WARPS_MAX

#: LLVM types of the rows: `tw_touched_row` of shared memory, and `tw_plain_row` of global memory.
TOUCHED_TYPE = f"<{{ i64, i32, i32, [{RUN} x i32] }}>"
PLAIN_TYPE = "<{ i64, i64 }>"


@dataclass(slots=True)
class _Toucher:
    """The lanes that touch a cell, as the lowest and the highest; and the access, if all are at one."""

    low: int
    high: int
    access: int

    @property
    def several(self) -> bool:
        return self.low != self.high

    @property
    def tile(self) -> int:
        """The smallest aligned group of 2, 4, 8 ... lanes that has these, as a node of the tree over 32 leaves."""
        return self.low + 32 >> (self.low ^ self.high).bit_length()

    def join(self, lane: int, access: int) -> None:
        if lane == self.low == self.high:
            self.access = access
            return
        self.low, self.high = min(self.low, lane), max(self.high, lane)
        self.access = access if self.access == access else SITE_MAX


class Table:
    """The cells of accesses with one base: `offsets` are the lanes' byte offsets, `sizes` the bytes a lane, of each.

    >>> table = Table([[0, 4, 8]], [4], 4)
    >>> table.rows, table.plain(), table.shared_by_lanes
    ([[0, 1, 2]], '<{ i64, i64 }> <{ i64 0, i64 7 }>', False)
    """

    def __init__(self, offsets: Sequence[Sequence[int]], sizes: Sequence[int], cell_bytes: int) -> None:
        self.cells: dict[int, _Toucher] = {}
        for access, (lanes, size) in enumerate(zip(offsets, sizes, strict=True)):
            for lane, offset in enumerate(lanes):
                for cell in range(offset // cell_bytes, -(-(offset + size) // cell_bytes)):
                    if cell in self.cells:
                        self.cells[cell].join(lane, access)
                    else:
                        self.cells[cell] = _Toucher(lane, lane, access)
        self.rows: list[list[int]] = []
        for cell in sorted(self.cells):
            if not self.rows or cell >= self.rows[-1][0] + RUN:
                self.rows.append([])
            self.rows[-1].append(cell)

    @property
    def shared_by_lanes(self) -> bool:
        """Whether several lanes touch one cell."""
        return any(toucher.several for toucher in self.cells.values())

    def plain(self) -> str:
        """LLVM text of the rows without the lanes: the first cell, and one bit for each cell in use."""
        return ", ".join(f"{PLAIN_TYPE} <{{ i64 {row[0]}, i64 {_used(row)} }}>" for row in self.rows)

    def touched(self) -> str:
        """LLVM text of the rows: first cell, used, several; of each cell `access << 12 | lane` or its tile's number."""
        return ", ".join(self._row(row) for row in self.rows)

    def _row(self, row: list[int]) -> str:
        lows = [0] * RUN
        several = 0
        for cell in row:
            toucher, at = self.cells[cell], cell - row[0]
            lows[at] = toucher.access << SITE_SHIFT | (
                WARPS_MAX * (toucher.tile - 1) if toucher.several else toucher.low
            )
            several |= toucher.several << at
        listed = ", ".join(f"i32 {low}" for low in lows)
        return f"{TOUCHED_TYPE} <{{ i64 {row[0]}, i32 {_used(row)}, i32 {several}, [{RUN} x i32] [{listed}] }}>"


def _used(row: list[int]) -> int:
    return sum(1 << cell - row[0] for cell in row)
