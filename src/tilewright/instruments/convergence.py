"""Whether the threads of a block come to its barriers together, and the lanes of a warp to its warp operations.

Every thread counts the barriers that it comes to and that take the whole block. Lanes that come without all the
others of their warp are in divergent code. When a block has ended, threads that came to fewer barriers than others have
left before one, or passed it by.

Source: PTX ISA, 9.7.13.1 (bar: "bar{.cta}.sync is equivalent to barrier{.cta}.sync.aligned", which all threads of a
warp must execute together), 9.7.9 (shfl.sync, vote.sync: the executing thread must be in `membermask`, and behaviour is
undefined if one of the lanes it names does not execute the same instruction).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.instruments.findings import Finding
from tilewright.instruments.shadow import records
from tilewright.instruments.shadow.cells import LAUNCH
from tilewright.instruments.shadow.words import place_of
from tilewright.simt.events import (
    FIELDS,
    VALUES_STRIDE_BYTES,
    EventKind,
    Facts,
    Handler,
    Instrument,
    Site,
    Storage,
    parameters,
)

#: Kinds of records. Members: a caller that the mask does not name; a lane that it names and that does not come.
_DIVERGENT, _LEFT, _NOT_NAMED, _NOT_THERE = range(1, 5)
_CODES = {_DIVERGENT: "TW401", _LEFT: "TW402", _NOT_NAMED: "TW404", _NOT_THERE: "TW404"}
_WORDS = {
    _DIVERGENT: "lanes of one warp come to different barriers at the same time, this one among them",
    _LEFT: "threads have ended without coming to this barrier, which others of their block wait at",
    _NOT_NAMED: "the mask of `{opcode}` must name the lanes that execute it, and leaves some of them out",
    _NOT_THERE: "the mask of `{opcode}` names lanes that have ended or are elsewhere",
}
#: Which source operand is the mask of members, by opcode.
_MEMBERS = {"shfl": 3, "vote": 1, "match": 1, "redux": 1, "elect": 0, "bar": 0}
#: Byte offsets in a block's memory: warps that have ended, barriers counted by each thread, and the instruction of
#: each of the first barriers; then of each warp the lanes that have come to its present one, and where the first did.
_ENDED, _COUNTS, _ROWS = 0, 64, 64 + 4 * 1024
_ROWS_MAX = 1024
#: Barriers that one thread is told to have missed, at most: loops come to the same few again and again.
_MISSED_MAX = 64
_COME = _ROWS + 4 * _ROWS_MAX


class Convergence(Instrument):
    """Find barriers in divergent code, threads that leave before a barrier, and wrong masks of warp operations.

    Parameters
    ----------
    kernel : str
        The kernel's name, for findings.
    """

    def __init__(self, kernel: str = "") -> None:
        self.name = "convergence"
        self._kernel = kernel

    def key(self) -> Any:
        """The code depends on nothing but the sites."""
        return self.name

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Barriers, ends, and warp operations with a mask."""
        parts = site.opcode.split(".")
        if site.kind is EventKind.ARRIVE:
            aligned = parts[0] == "bar" or "aligned" in parts
            return _handler("arrive.aligned" if aligned else "arrive", EventKind.ARRIVE, _arrive(aligned=aligned))
        if site.kind is EventKind.EXIT:
            return _handler("exit", EventKind.EXIT, _EXIT)
        if site.kind is EventKind.VALUE and "sync" in parts and parts[0] in _MEMBERS:
            return _handler(f"members.{parts[0]}", EventKind.VALUE, _members(_MEMBERS[parts[0]]))
        return None

    def begin(self, facts: Facts) -> Storage:
        """Counts of each block's threads, and the records."""
        self._facts = facts
        self._table = records.empty()
        return Storage(records.launch_words(self._table, facts), np.zeros(_COME + 8 * 32, np.uint8))

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> tuple[Finding, ...]:
        """Findings; where threads have passed a barrier by, that its lanes came apart is said by that."""
        found = records.read(self._table)
        left = {sites[one.row].source or one.row for one in found if one.kind == _LEFT}
        return tuple(
            self._finding(one, sites[one.row])
            for one in found
            if one.kind != _DIVERGENT or (sites[one.row].source or one.row) not in left
        )

    def _finding(self, record: records.Record, site: Site) -> Finding:
        return Finding(
            code=_CODES[record.kind], message=_WORDS[record.kind].format(opcode=site.opcode), kernel=self._kernel,
            opcode=site.opcode, ptx_line=site.ptx_line, count=record.count, **place_of(record, site, self._facts),
        )  # fmt: skip


def _handler(name: str, kind: EventKind, body: str) -> Handler:
    symbol = f"tw.convergence.{name}"
    return Handler(symbol, f"{records.REPORT}\ndefine void @{symbol}({parameters(kind)}) {{\nentry:\n{FACTS}{body}}}\n")


FACTS = f"""
  %w.p = getelementptr i8, ptr %warp, i64 {FIELDS["warp.index"]}
  %w = load i32, ptr %w.p
  %live.p = getelementptr i8, ptr %warp, i64 {FIELDS["warp.live"]}
  %live = load i32, ptr %live.p
  %number.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.block"]}
  %number = load i64, ptr %number.p
  %block.key = shl i64 %number, 10
  %w.first = shl i32 %w, 5
  %threads.p = getelementptr i8, ptr %launch, i64 {LAUNCH["threads"]}
  %threads64 = load i64, ptr %threads.p
  %threads.all = trunc i64 %threads64 to i32
  %w.left = sub i32 %threads.all, %w.first
  %w.whole = icmp uge i32 %w.left, 32
  %w.bits = shl i32 1, %w.left
  %w.part = sub i32 %w.bits, 1
  %initial = select i1 %w.whole, i32 -1, i32 %w.part
  %counts.at = shl i32 %w.first, 2
  %counts.off = add i32 %counts.at, {_COUNTS}
  %counts.p = getelementptr i8, ptr %block, i32 %counts.off
"""


def tag(prefix: str, kind: int, row: str) -> str:
    """`%PREFIX.tag` of a kind at an instruction."""
    return records.tag_text(prefix, str(kind), "false", "false", "0").replace("zext i32 %row to", f"zext i32 {row} to")


def report(kind: int, lanes: str, prefix: str = "here", row: str = "%row") -> str:
    """Record the lowest of some lanes, once."""
    return f"""
  %{prefix}{kind}.first = call i32 @llvm.cttz.i32(i32 {lanes}, i1 true)
  %{prefix}{kind}.thread = or i32 %w.first, %{prefix}{kind}.first
  %{prefix}{kind}.wide = zext i32 %{prefix}{kind}.thread to i64
  %{prefix}{kind}.key = or i64 %block.key, %{prefix}{kind}.wide
{tag(f"{prefix}{kind}", kind, row)}
  call void @tw.memory.report(ptr %launch, i64 %{prefix}{kind}.tag, i64 %{prefix}{kind}.key, i64 0, i64 0)
"""


def _arrive(*, aligned: bool) -> str:
    """Count, and see that lanes of one warp come to the same instruction, at once or in parts."""
    apart = "and i1 %waiting, %elsewhere" if aligned else "icmp eq i32 0, 1"
    return f"""
  %all = icmp eq i32 %threads, 0
  br i1 %all, label %count, label %leave
count:
  %counts = load <32 x i32>, ptr %counts.p, align 4
  %bits = bitcast i32 %mask to <32 x i1>
  %one = zext <32 x i1> %bits to <32 x i32>
  %more = add <32 x i32> %counts, %one
  store <32 x i32> %more, ptr %counts.p, align 4
  %lane = call i32 @llvm.cttz.i32(i32 %mask, i1 true)
  %n = extractelement <32 x i32> %counts, i32 %lane
  %known = icmp ult i32 %n, {_ROWS_MAX}
  br i1 %known, label %name, label %look
name:
  %row.at = shl i32 %n, 2
  %row.off = add i32 %row.at, {_ROWS}
  %row.p = getelementptr i8, ptr %block, i32 %row.off
  store i32 %row, ptr %row.p
  br label %look
look:
  %come.at = shl i32 %w, 3
  %come.off = add i32 %come.at, {_COME}
  %come.p = getelementptr i8, ptr %block, i32 %come.off
  %place.p = getelementptr i8, ptr %come.p, i64 4
  %before = load i32, ptr %come.p
  %place = load i32, ptr %place.p
  %again = and i32 %before, %mask
  %fresh = icmp ne i32 %again, 0
  %come = select i1 %fresh, i32 0, i32 %before
  %waiting = icmp ne i32 %come, 0
  %elsewhere = icmp ne i32 %place, %row
  %now = or i32 %come, %mask
  store i32 %now, ptr %come.p
  store i32 %row, ptr %place.p
  %apart = {apart}
  br i1 %apart, label %divergent, label %leave
divergent:
{report(_DIVERGENT, "%mask")}
{report(_DIVERGENT, "%come", "there", "%place")}
  br label %leave
leave:
  ret void
"""


#: When the last warp of a block has ended: which threads came to fewer barriers than others.
_EXIT = f"""
  %over = icmp eq i32 %live, 0
  br i1 %over, label %warp.ends, label %leave
warp.ends:
  %ended.p = getelementptr i8, ptr %block, i64 {_ENDED}
  %ended = load i32, ptr %ended.p
  %ended1 = add i32 %ended, 1
  store i32 %ended1, ptr %ended.p
  %up = add i32 %threads.all, 31
  %warps = lshr i32 %up, 5
  %last = icmp eq i32 %ended1, %warps
  br i1 %last, label %most, label %leave
most:
  %i = phi i32 [ 0, %warp.ends ], [ %i1, %most ]
  %top = phi i32 [ 0, %warp.ends ], [ %top1, %most ]
  %c.at = shl i32 %i, 2
  %c.off = add i32 %c.at, {_COUNTS}
  %c.p = getelementptr i8, ptr %block, i32 %c.off
  %c = load i32, ptr %c.p
  %top1 = call i32 @llvm.umax.i32(i32 %top, i32 %c)
  %i1 = add i32 %i, 1
  %again = icmp ult i32 %i1, %threads.all
  br i1 %again, label %most, label %each
each:
  %t = phi i32 [ 0, %most ], [ %t1, %next ]
  %d.at = shl i32 %t, 2
  %d.off = add i32 %d.at, {_COUNTS}
  %d.p = getelementptr i8, ptr %block, i32 %d.off
  %d = load i32, ptr %d.p
  %less = icmp ult i32 %d, %top1
  %known = icmp ult i32 %d, {_ROWS_MAX}
  %told = and i1 %less, %known
  %far = add i32 %d, {_MISSED_MAX}
  %near = call i32 @llvm.umin.i32(i32 %top1, i32 %far)
  %end = call i32 @llvm.umin.i32(i32 %near, i32 {_ROWS_MAX})
  br i1 %told, label %missed, label %next
missed:
  br label %each.missed
each.missed:
  %n = phi i32 [ %d, %missed ], [ %n1, %each.missed ]
  %m.at = shl i32 %n, 2
  %m.off = add i32 %m.at, {_ROWS}
  %m.p = getelementptr i8, ptr %block, i32 %m.off
  %m.row = load i32, ptr %m.p
  %t.wide = zext i32 %t to i64
  %key = or i64 %block.key, %t.wide
{tag("left", _LEFT, "%m.row")}
  call void @tw.memory.report(ptr %launch, i64 %left.tag, i64 %key, i64 0, i64 0)
  %n1 = add i32 %n, 1
  %short = icmp ult i32 %n1, %end
  br i1 %short, label %each.missed, label %next
next:
  %t1 = add i32 %t, 1
  %more = icmp ult i32 %t1, %threads.all
  br i1 %more, label %each, label %leave
leave:
  ret void
"""


def _members(operand: int) -> str:
    """Every executing lane named by its own mask; every lane that any of them names there, if it ever was."""
    lanes = ", ".join(f"i32 {lane}" for lane in range(32))
    return f"""
  %members.p = getelementptr i8, ptr %values, i64 {operand * VALUES_STRIDE_BYTES}
  %members.wide = load <32 x i64>, ptr %members.p, align 8
  %members = trunc <32 x i64> %members.wide to <32 x i32>
  %own = lshr <32 x i32> %members, <{lanes}>
  %own.bit = trunc <32 x i32> %own to <32 x i1>
  %named = bitcast <32 x i1> %own.bit to i32
  %not.named = xor i32 %named, -1
  %unnamed = and i32 %mask, %not.named
  %active = bitcast i32 %mask to <32 x i1>
  %counted = select <32 x i1> %active, <32 x i32> %members, <32 x i32> zeroinitializer
  %all = call i32 @llvm.vector.reduce.or.v32i32(<32 x i32> %counted)
  %here = xor i32 %mask, -1
  %away0 = and i32 %all, %here
  %away = and i32 %away0, %initial
  %some = icmp ne i32 %unnamed, 0
  br i1 %some, label %caller, label %others
caller:
{report(_NOT_NAMED, "%unnamed")}
  br label %others
others:
  %missing = icmp ne i32 %away, 0
  br i1 %missing, label %absent, label %leave
absent:
{report(_NOT_THERE, "%mask")}
  br label %leave
leave:
  ret void
"""
