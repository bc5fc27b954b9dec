"""Records of what was found: one for each pair of instructions and kind, with its first place and how often.

The first place is that of the lowest block and thread, so that no order of execution changes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.instruments.shadow.cells import LAUNCH, LAUNCH_WORDS, RECORD_WORDS, RECORDS, SITE_MAX
from tilewright.simt.events import Facts

HASH = 0x9E3779B97F4A7C15
#: Bits of a tag: kind, whether this access and the other one wrote, this one's row, the other's site.
_KIND_SHIFT, _WROTE_SHIFT, _OTHER_WROTE_SHIFT, _ROW_SHIFT = 48, 47, 46, 12

REPORT = f"""
; tw.memory.report(launch, tag, key, address, cell): remember a finding; key is block << 10 | thread.
define internal void @tw.memory.report(ptr %launch, i64 %tag, i64 %key, i64 %address, i64 %cell) noinline {{
entry:
  br label %wait
wait:
  %got = cmpxchg ptr %launch, i64 0, i64 1 acquire monotonic
  %free = extractvalue {{ i64, i1 }} %got, 1
  br i1 %free, label %find, label %wait
find:
  %table.p = getelementptr i8, ptr %launch, i64 {LAUNCH["table"]}
  %table = load ptr, ptr %table.p
  %mixed = mul i64 %tag, {HASH - (1 << 64)}
  %hash = lshr i64 %mixed, {64 - RECORDS.bit_length() + 1}
  br label %probe
probe:
  %i = phi i64 [ %hash, %find ], [ %i2, %again ]
  %tries = phi i64 [ 0, %find ], [ %tries1, %again ]
  %at = mul i64 %i, {8 * RECORD_WORDS}
  %record = getelementptr i8, ptr %table, i64 %at
  %old = load i64, ptr %record
  %empty = icmp eq i64 %old, 0
  %same = icmp eq i64 %old, %tag
  %here = or i1 %empty, %same
  br i1 %here, label %write, label %again
again:
  %i1 = add i64 %i, 1
  %i2 = and i64 %i1, {RECORDS - 1}
  %tries1 = add i64 %tries, 1
  %full = icmp eq i64 %tries1, {RECORDS}
  br i1 %full, label %lose, label %probe
lose:
  %lost.p = getelementptr i8, ptr %launch, i64 {LAUNCH["lost"]}
  %lost = load i64, ptr %lost.p
  %lost1 = add i64 %lost, 1
  store i64 %lost1, ptr %lost.p
  br label %unlock
write:
  store i64 %tag, ptr %record
  %count.p = getelementptr i64, ptr %record, i64 1
  %count = load i64, ptr %count.p
  %count1 = add i64 %count, 1
  store i64 %count1, ptr %count.p
  %inverse = xor i64 %key, -1
  %key.p = getelementptr i64, ptr %record, i64 2
  %best = load i64, ptr %key.p
  %better = icmp ugt i64 %inverse, %best
  br i1 %better, label %first, label %unlock
first:
  store i64 %inverse, ptr %key.p
  %address.p = getelementptr i64, ptr %record, i64 3
  store i64 %address, ptr %address.p
  %cell.p = getelementptr i64, ptr %record, i64 4
  store i64 %cell, ptr %cell.p
  br label %unlock
unlock:
  store atomic i64 0, ptr %launch release, align 8
  ret void
}}
"""


def tag_text(prefix: str, kind: str, wrote: str, other_wrote: str, cell: str) -> str:
    """LLVM text that makes `%PREFIX.tag` of i64 `kind`, two i1 and the other's cell (of which the site is taken)."""
    return f"""
  %{prefix}.kind = shl i64 {kind}, {_KIND_SHIFT}
  %{prefix}.w = zext i1 {wrote} to i64
  %{prefix}.wrote = shl i64 %{prefix}.w, {_WROTE_SHIFT}
  %{prefix}.o = zext i1 {other_wrote} to i64
  %{prefix}.other = shl i64 %{prefix}.o, {_OTHER_WROTE_SHIFT}
  %{prefix}.row64 = zext i32 %row to i64
  %{prefix}.row = shl i64 %{prefix}.row64, {_ROW_SHIFT}
  %{prefix}.cell = lshr i64 {cell}, 12
  %{prefix}.site = and i64 %{prefix}.cell, {SITE_MAX}
  %{prefix}.t1 = or i64 %{prefix}.kind, %{prefix}.wrote
  %{prefix}.t2 = or i64 %{prefix}.t1, %{prefix}.other
  %{prefix}.t3 = or i64 %{prefix}.t2, %{prefix}.row
  %{prefix}.tag = or i64 %{prefix}.t3, %{prefix}.site
"""


@dataclass(frozen=True, slots=True)
class Record:
    """One kind of finding at one instruction, or pair of them.

    Attributes
    ----------
    kind : int
        Of `cells`: SHARED_GAP ... LOCAL_UNWRITTEN.
    row : int
        The instruction, as the instrument numbers its sites.
    other : int
        The other instruction of a race, modulo nothing; SITE_MAX where it is not known.
    wrote, other_wrote : bool
    count : int
    block, thread : int
        Linear; of the first place.
    address : int
    cell : int
        The other access's cell at the first place.
    """

    kind: int
    row: int
    other: int
    wrote: bool
    other_wrote: bool
    count: int
    block: int
    thread: int
    address: int
    cell: int


def read(table: npt.NDArray[Any]) -> list[Record]:
    """The records of a table of shape (RECORDS, RECORD_WORDS)."""
    found = []
    for tag, count, inverse, address, cell in table[table[:, 0] != 0].tolist():
        key = ~inverse & ((1 << 64) - 1)
        row = tag >> _ROW_SHIFT & ((1 << (_OTHER_WROTE_SHIFT - _ROW_SHIFT)) - 1)
        wrote, other = bool(tag >> _WROTE_SHIFT & 1), bool(tag >> _OTHER_WROTE_SHIFT & 1)
        place = key >> 10, key & 1023
        found.append(Record(tag >> _KIND_SHIFT, row, tag & SITE_MAX, wrote, other, count, *place, address, cell))
    return found


def empty() -> npt.NDArray[np.uint64]:
    """A table without records."""
    return np.zeros((RECORDS, RECORD_WORDS), np.uint64)


def launch_words(table: npt.NDArray[np.uint64], facts: Facts) -> npt.NDArray[np.uint64]:
    """A launch's memory for an instrument that only reports: where its table is, and the threads of a block."""
    words = np.zeros(LAUNCH_WORDS, np.uint64)
    words[LAUNCH["table"] // 8] = table.ctypes.data
    words[LAUNCH["threads"] // 8] = math.prod(facts.block)
    return words
