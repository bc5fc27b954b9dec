"""32-bit arithmetic whose result is not that of whole numbers.

Which instructions are asked about, and how their result is read afterwards, the caller says: PTX computes signed and
unsigned sums by one instruction, and only what becomes of the result tells which was meant. A result counts as wrapped
when no reading of the operands, each signed or unsigned, gives it: so adding 0xFFFFFFFF is also subtracting 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.instruments.places import NOTE, Place, Places
from tilewright.simt.events import (
    VALUES_STRIDE_BYTES,
    EventKind,
    Facts,
    Handler,
    Instrument,
    Site,
    Storage,
    parameters,
)

_LANES = 32
_WIDE = f"<{_LANES} x i64>"
#: Operations by the start of an opcode: what they compute of %x, %y and %z, in 64 bits, where nothing is lost.
OPERATIONS = {
    "add": "  %RESULT = add {wide} %X, %Y\n",
    "sub": "  %RESULT = sub {wide} %X, %Y\n",
    "mul.lo": "  %RESULT = mul {wide} %X, %Y\n",
    "mad.lo": "  %RESULT.product = mul {wide} %X, %Y\n  %RESULT = add {wide} %RESULT.product, %Z\n",
    "shl": "  %RESULT.at = and {wide} %Y0, splat (i64 31)\n  %RESULT = shl {wide} %X, %RESULT.at\n",
}


@dataclass(frozen=True, slots=True)
class WraparoundRow:
    """One instruction that wrapped.

    Attributes
    ----------
    site : Site
    count : int
        Lanes.
    block, thread : (int, int, int) or None
        The first of them.
    """

    site: Site
    count: int
    block: Place | None
    thread: Place | None


class Wraparound(Instrument):
    """Find 32-bit arithmetic that wraps around; the result is a row for each instruction that did.

    Parameters
    ----------
    lines : mapping of int to bool
        Lines of the PTX text to look at -> whether the result is read as signed.
    """

    slots = 1

    def __init__(self, lines: Mapping[int, bool]) -> None:
        self.name = "wraparound"
        self.lines = dict(sorted(lines.items()))
        self._places = Places()
        self._facts: Facts | None = None

    def key(self) -> Any:
        """The code depends on the lines."""
        return self.name, self.lines

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """The instructions of these lines."""
        operation = operation_of(site.opcode)
        if site.kind is not EventKind.VALUE or site.ptx_line not in self.lines or not operation:
            return None
        signed = self.lines[site.ptx_line]
        symbol = f"tw.wraparound.{operation}.{'signed' if signed else 'unsigned'}"
        return Handler(symbol, _text(symbol, operation, signed=signed))

    def begin(self, facts: Facts) -> Storage:
        """The table of first places."""
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


def operation_of(opcode: str) -> str:
    """The operation of a 32-bit instruction that can wrap, or "".

    Examples
    --------
    >>> operation_of("mad.lo.s32"), operation_of("add.s64"), operation_of("shl.b32"), operation_of("add.sat.s32")
    ('mad.lo', '', 'shl', '')
    """
    stem, _, kind = opcode.rpartition(".")
    return stem if stem in OPERATIONS and kind in ("s32", "u32", "b32") else ""


def _text(symbol: str, operation: str, *, signed: bool) -> str:
    """Compute the result of each reading of the operands in 64 bits; a lane wraps when none is what 32 bits hold."""
    count = 3 if operation == "mad.lo" else 2
    body = "".join(
        f"""
  %p{i} = getelementptr i8, ptr %values, i64 {i * VALUES_STRIDE_BYTES}
  %v{i} = load {_WIDE}, ptr %p{i}, align 8
  %low{i} = trunc {_WIDE} %v{i} to <{_LANES} x i32>
  %s{i} = sext <{_LANES} x i32> %low{i} to {_WIDE}
  %u{i} = zext <{_LANES} x i32> %low{i} to {_WIDE}
"""
        for i in range(count)
    )
    last, low, high = "zeroinitializer", *((-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1))
    for number in range(2**count):
        names = [f"{'su'[number >> i & 1]}{i}" for i in range(count)]
        result = f"r{number}"
        text = OPERATIONS[operation].format(wide=_WIDE).replace("Y0", "u1")
        for letter, name in zip("XYZ", names, strict=False):
            text = text.replace(f"%{letter}", f"%{name}")
        body += text.replace("RESULT", result) + (
            f"  %{result}.from = icmp sge {_WIDE} %{result}, splat (i64 {low})\n"
            f"  %{result}.to = icmp sle {_WIDE} %{result}, splat (i64 {high})\n"
            f"  %{result}.fits = and <{_LANES} x i1> %{result}.from, %{result}.to\n"
            f"  %{result}.any = or <{_LANES} x i1> {last}, %{result}.fits\n"
        )
        last = f"%{result}.any"
    return f"""{NOTE}
define void @{symbol}({parameters(EventKind.VALUE)}) {{
entry:
{body}
  %fine = bitcast <{_LANES} x i1> {last} to i32
  %wrapped = xor i32 %fine, -1
  %lanes = and i32 %wrapped, %mask
  %none = icmp eq i32 %lanes, 0
  br i1 %none, label %leave, label %note
note:
  call void @tw.places.note(ptr %slot, ptr %warp, ptr %launch, ptr %counters, i32 %row, i32 %lanes)
  br label %leave
leave:
  ret void
}}
"""
