"""Stores of NaN and infinity: which instructions stored them, how often, and where first.

A store's value is judged by its bits, as the floating-point type of the instruction; an untyped store of 16, 32 or 64
bits counts as one of float16, float32 or float64, so who asks must know what the memory is meant to hold.
"""

from __future__ import annotations

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
#: Bits of the exponent by element type; all of them set says NaN or infinity. Source: IEEE 754-2019, 3.4.
_EXPONENTS = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F80_0000, "f64": 0x7FF0_0000_0000_0000}
_UNTYPED = {"b16": "f16", "b32": "f32", "b64": "f64"}


@dataclass(frozen=True, slots=True)
class NonfiniteRow:
    """One store.

    Attributes
    ----------
    site : Site
    type : str
        The floating-point type that its values were judged as: `f16`, `f32`, `f64`.
    count : int
        Lanes that stored NaN or infinity.
    block, thread : (int, int, int) or None
        The first of them; None where there is none.
    """

    site: Site
    type: str
    count: int
    block: Place | None
    thread: Place | None


class Nonfinite(Instrument):
    """Find the stores to global memory that wrote NaN or infinity; the result is a row for each store that did."""

    slots = 1

    def __init__(self) -> None:
        self.name = "nonfinite"
        self._places = Places()
        self._facts: Facts | None = None

    def key(self) -> Any:
        """The code depends on nothing."""
        return self.name

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Stores of floating-point values, and of untyped ones."""
        kind = stored_type(site.opcode)
        if site.kind is not EventKind.ACCESS or site.access != "store" or site.space != "global" or not kind:
            return None
        bits = int(kind.lstrip("bf"))
        elements = site.bytes_per_lane * 8 // bits
        symbol = f"tw.nonfinite.{kind}.{elements}" + (".pattern" if offsets is not None else "")
        listed = parameters(EventKind.ACCESS, pattern=offsets is not None, values=True)
        return Handler(symbol, _text(symbol, listed, bits, _EXPONENTS[kind], elements), offsets is not None, True)

    def begin(self, facts: Facts) -> Storage:
        """The table of first places."""
        self._facts, self._places = facts, Places()
        return Storage(self._places.table)

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> tuple[NonfiniteRow, ...]:
        """The stores that wrote something that is not finite."""
        assert self._facts is not None
        rows = []
        for index, (site, count) in enumerate(zip(sites, counters[:, 0].tolist(), strict=True)):
            if count:
                first = self._places.first(index, self._facts.grid, self._facts.block)
                rows.append(NonfiniteRow(site, stored_type(site.opcode), count, *(first or (None, None))))
        return tuple(rows)


def stored_type(opcode: str) -> str:
    """The floating-point type of a store, or ""; an untyped one may hold any.

    Examples
    --------
    >>> stored_type("st.global.v4.f32"), stored_type("st.global.b64"), stored_type("st.global.u32")
    ('f32', 'f64', '')
    """
    last = opcode.rsplit(".", 1)[-1]
    return _UNTYPED.get(last, last if last in _EXPONENTS else "")


def _text(symbol: str, listed: str, bits: int, exponent: int, elements: int) -> str:
    kind = f"<{_LANES} x i{bits}>"
    body, bad = "", "zeroinitializer"
    for i in range(elements):
        body += f"""
  %p{i} = getelementptr i8, ptr %values, i64 {i * VALUES_STRIDE_BYTES}
  %v{i} = load {kind}, ptr %p{i}, align 8
  %e{i} = and {kind} %v{i}, splat (i{bits} {exponent})
  %is{i} = icmp eq {kind} %e{i}, splat (i{bits} {exponent})
  %bad{i} = or <{_LANES} x i1> {bad}, %is{i}
"""
        bad = f"%bad{i}"
    return f"""{NOTE}
define void @{symbol}({listed}) {{
entry:
{body}
  %all = bitcast <{_LANES} x i1> {bad} to i32
  %lanes = and i32 %all, %mask
  %none = icmp eq i32 %lanes, 0
  br i1 %none, label %leave, label %note
note:
  call void @tw.places.note(ptr %slot, ptr %warp, ptr %launch, ptr %counters, i32 %row, i32 %lanes)
  br label %leave
leave:
  ret void
}}
"""
