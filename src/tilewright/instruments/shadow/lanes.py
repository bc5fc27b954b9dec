"""The exact judgement of one lane's access, as LLVM text: everything that a pattern's quick test cannot clear."""

from __future__ import annotations

from tilewright.instruments.shadow import cells
from tilewright.instruments.shadow.conflicts import LANE, facts, report
from tilewright.simt.events import FIELDS


def shared_text(cell_bytes: int) -> str:
    """`tw.memory.shared(LANE)`: bounds, initialisation and races of one lane in shared memory, cell by cell."""
    return f"""
define internal void @tw.memory.shared({LANE}) noinline {{
entry:
{facts()}
  %reads.p = getelementptr i8, ptr %launch, i64 {cells.LAUNCH["shared_reads"]}
  %reads.at = load i64, ptr %reads.p
  %all.w = getelementptr i8, ptr %block, i64 {cells.SHARED_CELLS}
  %all.r = getelementptr i8, ptr %block, i64 %reads.at
  %memory.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.shared"]}
  %memory.base = load ptr, ptr %memory.p
  %memory = getelementptr i8, ptr %memory.base, i64 %address
  %mine.clock = shl i64 %clock, {cells.CLOCK_SHIFT}
  %mine = or i64 %mine.clock, %low
  %first = udiv i64 %address, {cell_bytes}
  %bytes64 = zext i32 %bytes to i64
  %last.byte = add i64 %address, %bytes64
  %end.up = add i64 %last.byte, {cell_bytes - 1}
  %end = udiv i64 %end.up, {cell_bytes}
  %element.up = add i32 %element, {cell_bytes - 1}
  br label %each
each:
  %c = phi i64 [ %first, %entry ], [ %c1, %next ]
  %w.p = getelementptr i64, ptr %all.w, i64 %c
  %r.p = getelementptr i64, ptr %all.r, i64 %c
  %v = load i64, ptr %w.p, align 8
  %r = load i64, ptr %r.p, align 8
  %gap = icmp eq i64 %v, {cells.GAP - (1 << 64)}
  br i1 %gap, label %outside, label %inside
outside:
{report("gap", str(cells.SHARED_GAP))}
  br label %next
inside:
  %v.clock = lshr i64 %v, {cells.CLOCK_SHIFT}
  %blank = icmp eq i64 %v, 0
  %raw = and i1 %blank, %reads
  br i1 %raw, label %rest, label %written
rest:  ; padding: an element of which some byte was written counts as written
  %element.cells = udiv i32 %element.up, {cell_bytes}
  %cells64 = zext i32 %element.cells to i64
  %since = sub i64 %c, %first
  %index = udiv i64 %since, %cells64
  %skip = mul i64 %index, %cells64
  %from = add i64 %first, %skip
  %to = add i64 %from, %cells64
  br label %each.rest
each.rest:
  %k = phi i64 [ %from, %rest ], [ %k1, %each.rest ]
  %some = phi i64 [ 0, %rest ], [ %some1, %each.rest ]
  %k.p = getelementptr i64, ptr %all.w, i64 %k
  %k.v = load i64, ptr %k.p, align 8
  %some1 = or i64 %some, %k.v
  %k1 = add i64 %k, 1
  %k.more = icmp ult i64 %k1, %to
  br i1 %k.more, label %each.rest, label %padding
padding:
  %partly = icmp ne i64 %some1, 0
  br i1 %partly, label %effects, label %unwritten
unwritten:
{report("raw", str(cells.SHARED_UNWRITTEN))}
  br label %effects
written:
  %hit = call i1 @tw.memory.races(ptr %block, i64 %v, i64 %v.clock, i32 %w, i32 %thread, i64 %clock, i1 %strong)
  %not.blank = xor i1 %blank, true
  %race = and i1 %hit, %not.blank
  br i1 %race, label %value, label %readers
value:
  %v.ours = call i1 @tw.memory.ours(i64 %v, i32 %w)
  %same = call i1 @tw.memory.same(ptr %memory, i32 %lane, i64 %address, i32 %bytes, i32 %element, i32 %mask,
                                  ptr %addresses, ptr %values, i1 %v.ours)
  br i1 %same, label %readers, label %asked
asked:
  %ordered = call i1 @tw.memory.ordered(ptr %launch, ptr %block,
    i64 %number, i64 %number, i32 %w, i64 %v, i64 %v.clock)
  br i1 %ordered, label %readers, label %tell
tell:
  %kind.w = select i1 %v.ours, i64 {cells.SHARED_LANES}, i64 {cells.SHARED_RACE}
{report("war", "%kind.w", "true", "%v")}
  br label %readers
readers:
  %r.any = icmp ne i64 %r, 0
  %look = and i1 %r.any, %writes
  br i1 %look, label %read, label %effects
read:
  %r.clock = lshr i64 %r, {cells.CLOCK_SHIFT}
  %r.hit = call i1 @tw.memory.races(ptr %block, i64 %r, i64 %r.clock, i32 %w, i32 %thread, i64 %clock, i1 %strong)
  br i1 %r.hit, label %r.asked, label %effects
r.asked:
  %r.ordered = call i1 @tw.memory.ordered(ptr %launch, ptr %block,
    i64 %number, i64 %number, i32 %w, i64 %r, i64 %r.clock)
  br i1 %r.ordered, label %effects, label %r.tell
r.tell:
  %r.ours = call i1 @tw.memory.ours(i64 %r, i32 %w)
  %kind.r = select i1 %r.ours, i64 {cells.SHARED_LANES}, i64 {cells.SHARED_RACE}
{report("rar", "%kind.r", "false", "%r")}
  br label %effects
effects:
  %limit.p = getelementptr i8, ptr %block, i64 {cells.CLOCKS + 8}
  %limit.at = shl i32 %w, 4
  %limit.place = getelementptr i8, ptr %limit.p, i32 %limit.at
  %limit = load i64, ptr %limit.place
  br i1 %writes, label %set, label %note
set:  ; a strong write does not cover up a weak one of this round: others may race with that one only
  %kept.w = call i1 @tw.memory.keeps(i64 %v, i64 %limit, i1 %strong)
  br i1 %kept.w, label %next, label %put
put:
  %v.strong0 = lshr i64 %v, {cells.STRONG_BIT}
  %v.strong = trunc i64 %v.strong0 to i1
  %both.strong = and i1 %strong, %v.strong
  br i1 %both.strong, label %over, label %put.mine
over:  ; of two strong writes that nothing orders, a weak access may race with either
  %o.beside = call i1 @tw.memory.races(ptr %block, i64 %v, i64 %v.clock, i32 %w, i32 %thread, i64 %clock, i1 false)
  br i1 %o.beside, label %over.ask, label %put.mine
over.ask:
  %o.ordered = call i1 @tw.memory.ordered(ptr %launch, ptr %block,
    i64 %number, i64 %number, i32 %w, i64 %v, i64 %v.clock)
  br i1 %o.ordered, label %put.mine, label %put.both
put.both:
  %o.ours = call i1 @tw.memory.ours(i64 %v, i32 %w)
  %o.joined = call i64 @tw.memory.both(i64 %v, i64 %mine, i32 %w, i1 %o.ours)
  store i64 %o.joined, ptr %w.p, align 8
  br label %next
put.mine:
  store i64 %mine, ptr %w.p, align 8
  br label %next
note:
  %kept.r = call i1 @tw.memory.keeps(i64 %r, i64 %limit, i1 %strong)
  br i1 %kept.r, label %next, label %join
join:
  %n.clock = lshr i64 %r, {cells.CLOCK_SHIFT}
  %n.new = call i1 @tw.memory.races(ptr %block, i64 %r, i64 %n.clock, i32 %w, i32 %thread, i64 %clock, i1 false)
  %n.some = icmp ne i64 %r, 0
  %n.beside = and i1 %n.new, %n.some
  br i1 %n.beside, label %n.ask, label %n.put
n.ask:
  %n.ordered = call i1 @tw.memory.ordered(ptr %launch, ptr %block,
    i64 %number, i64 %number, i32 %w, i64 %r, i64 %n.clock)
  %n.not = xor i1 %n.ordered, true
  br label %n.put
n.put:
  %n.keep = phi i1 [ false, %join ], [ %n.not, %n.ask ]
  %n.ours = call i1 @tw.memory.ours(i64 %r, i32 %w)
  %n.joined = call i64 @tw.memory.both(i64 %r, i64 %mine, i32 %w, i1 %n.ours)
  %n.value = select i1 %n.keep, i64 %n.joined, i64 %mine
  store i64 %n.value, ptr %r.p, align 8
  br label %next
next:
  %c1 = add i64 %c, 1
  %more = icmp ult i64 %c1, %end
  br i1 %more, label %each, label %leave
leave:
  ret void
}}
"""


def local_text() -> str:
    """`tw.memory.local(LANE)`: bounds and initialisation of one lane's local memory, byte by byte."""
    return f"""
define internal void @tw.memory.local({LANE}) noinline {{
entry:
{facts()}
  %states.p = getelementptr i8, ptr %launch, i64 {cells.LAUNCH["local_states"]}
  %states.at = load i64, ptr %states.p
  %size.p = getelementptr i8, ptr %launch, i64 {cells.LAUNCH["local_bytes"]}
  %size = load i64, ptr %size.p
  %judged = icmp ne i64 %size, 0  ; where there is too much of it, it has no states
  br i1 %judged, label %place, label %leave
place:
  %mine.at = mul i64 %thread64, %size
  %at0 = add i64 %states.at, %mine.at
  %at = add i64 %at0, %address
  %states = getelementptr i8, ptr %block, i64 %at
  br label %byte
byte:
  %k = phi i32 [ 0, %place ], [ %k1, %good ]
  %s.p = getelementptr i8, ptr %states, i32 %k
  %s = load i8, ptr %s.p
  %outside = icmp eq i8 %s, -1
  br i1 %outside, label %beyond, label %within
beyond:
{report("out", str(cells.LOCAL_OUTSIDE))}
  br label %leave
within:
  %blank = icmp eq i8 %s, 0
  %raw = and i1 %blank, %reads
  br i1 %raw, label %rest, label %good
rest:  ; padding: an element of which some byte was written counts as written
  %index = udiv i32 %k, %element
  %from = mul i32 %index, %element
  %to = add i32 %from, %element
  br label %each.rest
each.rest:
  %j = phi i32 [ %from, %rest ], [ %j1, %each.rest ]
  %some = phi i8 [ 0, %rest ], [ %some1, %each.rest ]
  %j.p = getelementptr i8, ptr %states, i32 %j
  %j.s = load i8, ptr %j.p
  %some1 = or i8 %some, %j.s
  %j1 = add i32 %j, 1
  %j.more = icmp ult i32 %j1, %to
  br i1 %j.more, label %each.rest, label %padding
padding:
  %partly = icmp ne i8 %some1, 0
  br i1 %partly, label %good, label %unwritten
unwritten:
{report("raw", str(cells.LOCAL_UNWRITTEN))}
  br label %leave
good:
  %w8 = zext i1 %writes to i8
  %s1 = or i8 %s, %w8
  store i8 %s1, ptr %s.p
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, %bytes
  br i1 %more, label %byte, label %leave
leave:
  ret void
}}
"""
