"""Arrays with a gap after each row, so that an index past the end of its row is detected inside the array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.simulate.observer import Rows
from tilewright.simulate.programs.array_arguments import row_major

#: Least bytes of a gap: a warp's 32 float64 past the end of a row stay inside.
GAP_BYTES = 256
#: Bytes of the gap if there is only one: a block's 1,024 float64 past the end of the row stay inside.
ONLY_GAP_BYTES = 8192
#: Most bytes of all gaps of an array: for short rows of large arrays they would be too many.
_GAPS_MAX_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class RowGaps:
    """An array in C order with a gap after each row; a one-dimensional array is one row.

    >>> rows = RowGaps((2, 3, 4), 4)
    >>> rows.strides, rows.span_bytes
    ((816, 272, 4), 1632)
    >>> rows.gaps(1000)
    Rows(address=1016, count=6, step_bytes=272, size_bytes=256)
    """

    shape: tuple[int, ...]  #: No extent is 0.
    item_bytes: int  #: Bytes of an element.

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, without its gap."""
        return self.shape[-1] * self.item_bytes

    @property
    def gap_bytes(self) -> int:
        """Bytes of each gap: whole elements."""
        least = GAP_BYTES if len(self.shape) > 1 else ONLY_GAP_BYTES
        return -(-least // self.item_bytes) * self.item_bytes

    @property
    def strides(self) -> tuple[int, ...]:
        """NumPy strides, in bytes."""
        return (*row_major(self.shape[:-1], self.row_bytes + self.gap_bytes), self.item_bytes)

    @property
    def span_bytes(self) -> int:
        """Bytes of the array, the last gap included."""
        return math.prod(self.shape[:-1]) * (self.row_bytes + self.gap_bytes)

    def gaps(self, address: int) -> Rows:
        """The gaps of an array that begins at an address."""
        row = self.row_bytes + self.gap_bytes
        return Rows(address + self.row_bytes, self.span_bytes // row, row, self.gap_bytes)


def suits(shape: Sequence[int], item_bytes: int) -> bool:
    """Whether an array has rows and its gaps are small enough."""
    if len(shape) < 2 or 0 in shape:
        return False
    return math.prod(shape[:-1]) * (GAP_BYTES + item_bytes) <= _GAPS_MAX_BYTES
