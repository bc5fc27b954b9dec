"""32-bit arithmetic that wraps around.

The caller says which instructions to check and how their results are read: PTX has one instruction for signed and
unsigned sums, and only later uses of the result show which was meant. A result counts as wrapped if no reading of the
operands, each signed or unsigned, gives it: adding 0xFFFFFFFF may also be subtracting 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.header import header
from tilewright.observe.instruments.places import PART as PLACES_PART, Place, Places
from tilewright.simulate.events import CFunction, EventKind, Facts, Handler, Instrument, Site, Storage
from tilewright.simulate.isa import Linear, table

#: Types of 32 bits.
_TYPES = ("s32", "u32", "b32")
_NUMBERS = header(Path(__file__).with_name("wraparound.h")).numbers
#: The C part's number of each operation.
OPERATIONS = {
    one: _NUMBERS[f"TW_WRAP_{one.name}"] for one in (Linear.ADD, Linear.SUB, Linear.MUL, Linear.MAD, Linear.SHL)
}


@dataclass(frozen=True, slots=True)
class WraparoundRow:
    """One instruction that wrapped."""

    site: Site
    count: int  #: Lanes that wrapped.
    #: `block`, `thread`: the first instance.
    block: Place | None
    thread: Place | None


class Wraparound(Instrument):
    """Find 32-bit arithmetic that wraps around; the result has a row for each such instruction.

    `lines` are the PTX lines to check, each with whether the result is read as signed.
    """

    slots = 1

    parameters = ("lines",)

    def __init__(self, lines: Mapping[int, bool]) -> None:
        self.name = "wraparound"
        self.lines = dict(sorted(lines.items()))
        self._places = Places()
        self._facts: Facts | None = None

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """The instructions of these lines."""
        operation = operation_of(site.opcode)
        if site.kind is not EventKind.VALUE or site.ptx_line not in self.lines or not operation:
            return None
        facts = OPERATIONS[operation], int(self.lines[site.ptx_line])
        parts = (bitcode(Path(__file__).with_name("wraparound.c")), PLACES_PART)
        function = CFunction("tw_wraparound_value", EventKind.VALUE, parts)
        return function.handler("tw.wraparound.{}.{}".format(*facts), [f"i32 {fact}" for fact in facts])

    def begin(self, facts: Facts) -> Storage:
        """Memory for the table of first places."""
        self._facts, self._places = facts, Places()
        return Storage(self._places.table)

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> tuple[WraparoundRow, ...]:
        """The instructions that wrapped."""
        assert self._facts is not None
        rows = []
        for index, (site, count) in enumerate(zip(sites, counters[:, 0].tolist(), strict=True)):
            if count:
                first = self._places.first(index, self._facts.grid, self._facts.block)
                rows.append(WraparoundRow(site, count, *(first or (None, None))))
        return tuple(rows)


def operation_of(opcode: str) -> Linear:
    """The operation of a 32-bit instruction that can wrap, or `Linear.NONE`.

    >>> [str(operation_of(opcode)) for opcode in ("mad.lo.s32", "add.s64", "shl.b32", "add.sat.s32")]
    ['mad', '', 'shl', '']
    """
    form = table().find(opcode)
    if form is None or form.row.linear not in OPERATIONS or form["type"] not in _TYPES:
        return Linear.NONE
    return form.row.linear
