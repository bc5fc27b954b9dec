"""The exact judgement of one lane's access, as LLVM text: everything that a pattern's quick test cannot clear."""

from __future__ import annotations

from tilewright.instruments.shadow.cells import (
    BLOCK_SHIFT,
    CLOCK_SHIFT,
    FREED,
    GAP,
    GLOBAL_BLOCKS,
    GLOBAL_CONSTANT,
    GLOBAL_FREED,
    GLOBAL_LANES,
    GLOBAL_OUTSIDE,
    GLOBAL_RACE,
    GLOBAL_ROW_GAP,
    GLOBAL_UNWRITTEN,
    KNOWN,
    LAUNCH,
    LOCAL_OUTSIDE,
    LOCAL_UNWRITTEN,
    READABLE,
    ROW_GAP,
    SEEN,
    SEVERAL_BLOCKS,
    SEVERAL_WARPS,
    SHARED_CELLS,
    SHARED_GAP,
    SHARED_LANES,
    SHARED_RACE,
    SHARED_UNWRITTEN,
    SITE_MAX,
    SITE_SHIFT,
    STRONG_BIT,
    THREAD_MAX,
    WARPS_MAX,
    WHO_MASK,
    WRITABLE,
)
from tilewright.instruments.shadow.records import REPORT, tag_text
from tilewright.simt.events import FIELDS, GLOBAL_BASE, VALUES_STRIDE_BYTES

_V = f"<{WARPS_MAX} x i32>"

#: What every lane's judgement is given; `how` has bits 1 reads, 2 writes, 4 strong.
LANE = (
    "ptr %slot, ptr %launch, ptr %block, i32 %row, i32 %w, i64 %clock, i32 %lane, i64 %address, i32 %bytes, i32 %how, "
    "i32 %element, i32 %mask, ptr %addresses, ptr %values"
)

_RACES = f"""
declare i32 @llvm.vector.reduce.umax.v{WARPS_MAX}i32({_V})

; tw.memory.races(block, cell, its clock, warp, thread, clock, strong): whether that access is not ordered before ours.
define internal i1 @tw.memory.races(ptr %block, i64 %cell, i64 %its, i32 %w, i32 %thread, i64 %clock, i1 %strong) {{
entry:
  %s0 = lshr i64 %cell, {STRONG_BIT}
  %s1 = trunc i64 %s0 to i1
  %both = and i1 %s1, %strong
  %who64 = and i64 %cell, {WHO_MASK}
  %who = trunc i64 %who64 to i32
  %self = icmp eq i32 %who, %thread
  %fine = or i1 %both, %self
  br i1 %fine, label %no, label %whose
no:
  ret i1 false
whose:
  %several = icmp eq i32 %who, {SEVERAL_WARPS}
  %w64 = zext i32 %w to i64
  %row.at = mul i64 %w64, {4 * WARPS_MAX}
  %known.off = add i64 %row.at, {KNOWN}
  %known.p = getelementptr i8, ptr %block, i64 %known.off
  br i1 %several, label %any, label %one
any:  ; which warps is not kept: it is a race only if it is one with the warp that we know best
  %known = load {_V}, ptr %known.p, align 4
  %others = insertelement {_V} %known, i32 0, i32 %w
  %most = call i32 @llvm.vector.reduce.umax.v{WARPS_MAX}i32({_V} %others)
  %most64 = zext i32 %most to i64
  %after = icmp uge i64 %its, %most64
  ret i1 %after
one:
  %many = icmp uge i32 %who, {THREAD_MAX}
  %q.many = sub i32 %who, {THREAD_MAX}
  %q.one = lshr i32 %who, 5
  %q = select i1 %many, i32 %q.many, i32 %q.one
  %ours = icmp eq i32 %q, %w
  br i1 %ours, label %lanes, label %warps
lanes:
  %unsynced = icmp uge i64 %its, %clock
  ret i1 %unsynced
warps:
  %its.p = getelementptr i32, ptr %known.p, i32 %q
  %far = load i32, ptr %its.p, align 4
  %far64 = zext i32 %far to i64
  %unknown = icmp uge i64 %its, %far64
  ret i1 %unknown
}}

; tw.memory.sites(joined, cell): the joined cell, without its site where the other cell's differs.
define internal i64 @tw.memory.sites(i64 %joined, i64 %cell) alwaysinline {{
  %unlike = xor i64 %joined, %cell
  %differ = and i64 %unlike, {SITE_MAX << SITE_SHIFT}
  %same = icmp eq i64 %differ, 0
  %unknown = or i64 %joined, {SITE_MAX << SITE_SHIFT}
  %result = select i1 %same, i64 %joined, i64 %unknown
  ret i64 %result
}}

; tw.memory.ours(cell, warp): whether a cell's access was by this warp alone.
define internal i1 @tw.memory.ours(i64 %cell, i32 %w) alwaysinline {{
  %who64 = and i64 %cell, {WHO_MASK}
  %who = trunc i64 %who64 to i32
  %many = icmp uge i32 %who, {THREAD_MAX}
  %q.many = sub i32 %who, {THREAD_MAX}
  %q.one = lshr i32 %who, 5
  %q = select i1 %many, i32 %q.many, i32 %q.one
  %is = icmp eq i32 %q, %w
  ret i1 %is
}}
"""

#: Whether what is written is there already: in memory, or by a lower lane of the same instruction at the same address.
_SAME = f"""
define internal i1 @tw.memory.same(ptr %memory, i32 %lane, i64 %address, i32 %bytes, i32 %element, i32 %mask,
                                   ptr %addresses, ptr %values, i1 %alike) noinline {{
entry:
  %none = icmp eq ptr %values, null
  br i1 %none, label %no, label %twin
twin:  ; the last lower lane that writes the same place
  br i1 %alike, label %search, label %bytewise
search:
  %i = phi i32 [ %lane, %twin ], [ %j, %less ]
  %low = icmp eq i32 %i, 0
  br i1 %low, label %bytewise, label %less
less:
  %j = sub i32 %i, 1
  %bit = lshr i32 %mask, %j
  %on = trunc i32 %bit to i1
  %a.p = getelementptr i64, ptr %addresses, i32 %j
  %a = load i64, ptr %a.p, align 8
  %same.place = icmp eq i64 %a, %address
  %is = and i1 %on, %same.place
  br i1 %is, label %bytewise, label %search
bytewise:
  %other = phi i32 [ -1, %twin ], [ -1, %search ], [ %j, %less ]
  %from.memory = icmp slt i32 %other, 0
  br label %each
each:
  %k = phi i32 [ 0, %bytewise ], [ %k1, %equal ]
  %index = udiv i32 %k, %element
  %within = urem i32 %k, %element
  %start = mul i32 %index, {VALUES_STRIDE_BYTES}
  %mine.at = mul i32 %lane, %element
  %m1 = add i32 %start, %mine.at
  %m2 = add i32 %m1, %within
  %mine.p = getelementptr i8, ptr %values, i32 %m2
  %mine = load i8, ptr %mine.p
  %its.at = mul i32 %other, %element
  %o1 = add i32 %start, %its.at
  %o2 = add i32 %o1, %within
  %lane.p = getelementptr i8, ptr %values, i32 %o2
  %memory.p = getelementptr i8, ptr %memory, i32 %k
  %its.p = select i1 %from.memory, ptr %memory.p, ptr %lane.p
  %its = load i8, ptr %its.p
  %eq = icmp eq i8 %mine, %its
  br i1 %eq, label %equal, label %no
equal:
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, %bytes
  br i1 %more, label %each, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


def _facts() -> str:
    """Of the lane: its thread, the key of reports, what it does, and its own cell's low part."""
    return f"""
  %thread.base = shl i32 %w, 5
  %thread = or i32 %thread.base, %lane
  %thread64 = zext i32 %thread to i64
  %number.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.block"]}
  %number = load i64, ptr %number.p
  %key.block = shl i64 %number, 10
  %key = or i64 %key.block, %thread64
  %reads = trunc i32 %how to i1
  %h1 = lshr i32 %how, 1
  %writes = trunc i32 %h1 to i1
  %h2 = lshr i32 %how, 2
  %strong = trunc i32 %h2 to i1
  %strong64 = zext i1 %strong to i64
  %strong.bit = shl i64 %strong64, {STRONG_BIT}
  %row.small = call i32 @llvm.umin.i32(i32 %row, i32 4095)
  %site64 = zext i32 %row.small to i64
  %site.part = shl i64 %site64, {SITE_SHIFT}
  %low1 = or i64 %site.part, %strong.bit
  %low = or i64 %low1, %thread64
  %own.many.w = add i32 %w, {THREAD_MAX}
  %own.many = zext i32 %own.many.w to i64
"""


def _report(prefix: str, kind: str, other_wrote: str = "false", cell: str = "0") -> str:
    return (
        tag_text(prefix, kind, "%writes", other_wrote, cell)
        + f"  call void @tw.memory.report(ptr %launch, i64 %{prefix}.tag, i64 %key, i64 %address, i64 {cell})\n"
    )


def shared_text(cell_bytes: int) -> str:
    """`tw.memory.shared(LANE)`: bounds, initialisation and races of one lane in shared memory, cell by cell."""
    return f"""
define internal void @tw.memory.shared({LANE}) noinline {{
entry:
{_facts()}
  %reads.p = getelementptr i8, ptr %launch, i64 {LAUNCH["shared_reads"]}
  %reads.at = load i64, ptr %reads.p
  %all.w = getelementptr i8, ptr %block, i64 {SHARED_CELLS}
  %all.r = getelementptr i8, ptr %block, i64 %reads.at
  %memory.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.shared"]}
  %memory.base = load ptr, ptr %memory.p
  %memory = getelementptr i8, ptr %memory.base, i64 %address
  %mine.clock = shl i64 %clock, {CLOCK_SHIFT}
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
  %gap = icmp eq i64 %v, {GAP - (1 << 64)}
  br i1 %gap, label %outside, label %inside
outside:
{_report("gap", str(SHARED_GAP))}
  br label %next
inside:
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
{_report("raw", str(SHARED_UNWRITTEN))}
  br label %effects
written:
  %v.clock = lshr i64 %v, {CLOCK_SHIFT}
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
  %kind.w = select i1 %v.ours, i64 {SHARED_LANES}, i64 {SHARED_RACE}
{_report("war", "%kind.w", "true", "%v")}
  br label %readers
readers:
  %r.any = icmp ne i64 %r, 0
  %look = and i1 %r.any, %writes
  br i1 %look, label %read, label %effects
read:
  %r.clock = lshr i64 %r, {CLOCK_SHIFT}
  %r.hit = call i1 @tw.memory.races(ptr %block, i64 %r, i64 %r.clock, i32 %w, i32 %thread, i64 %clock, i1 %strong)
  br i1 %r.hit, label %r.asked, label %effects
r.asked:
  %r.ordered = call i1 @tw.memory.ordered(ptr %launch, ptr %block,
    i64 %number, i64 %number, i32 %w, i64 %r, i64 %r.clock)
  br i1 %r.ordered, label %effects, label %r.tell
r.tell:
  %r.ours = call i1 @tw.memory.ours(i64 %r, i32 %w)
  %kind.r = select i1 %r.ours, i64 {SHARED_LANES}, i64 {SHARED_RACE}
{_report("rar", "%kind.r", "false", "%r")}
  br label %effects
effects:
  br i1 %writes, label %set, label %note
set:
  store i64 %mine, ptr %w.p, align 8
  br label %next
note:
  %n.clock = lshr i64 %r, {CLOCK_SHIFT}
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
  %n.keep = phi i1 [ false, %note ], [ %n.not, %n.ask ]
  %n.ours = call i1 @tw.memory.ours(i64 %r, i32 %w)
  %n.strong = and i64 %r, %strong.bit
  %n.part0 = or i64 %mine.clock, %site.part
  %n.part = or i64 %n.part0, %n.strong
  %n.several = or i64 %n.part, {SEVERAL_WARPS}
  %n.many = or i64 %n.part, %own.many
  %n.both = select i1 %n.ours, i64 %n.many, i64 %n.several
  %n.joined = call i64 @tw.memory.sites(i64 %n.both, i64 %r)
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


def global_text(cell_bytes: int) -> str:
    """`tw.memory.global(LANE)`: the same in global memory: state of its bytes, then races, cell by cell."""
    return f"""
define internal void @tw.memory.global({LANE}) noinline {{
entry:
{_facts()}
  %states.p = getelementptr i8, ptr %launch, i64 {LAUNCH["states"]}
  %states = load ptr, ptr %states.p
  %writes.p = getelementptr i8, ptr %launch, i64 {LAUNCH["writes"]}
  %all.w = load ptr, ptr %writes.p
  %reads.p = getelementptr i8, ptr %launch, i64 {LAUNCH["reads"]}
  %all.r = load ptr, ptr %reads.p
  %memory.p = getelementptr i8, ptr %launch, i64 {LAUNCH["memory"]}
  %memory.base = load ptr, ptr %memory.p
  %offset = sub i64 %address, {GLOBAL_BASE}
  %memory = getelementptr i8, ptr %memory.base, i64 %offset
  %bytes64 = zext i32 %bytes to i64
  %end.byte = add i64 %offset, %bytes64
  %need.r = select i1 %reads, i8 {READABLE}, i8 0
  %need.w = select i1 %writes, i8 {WRITABLE}, i8 0
  %gain = select i1 %writes, i8 {READABLE}, i8 0
  br label %byte
byte:  ; the first byte that may not be accessed decides; an access that is not allowed has no effect here
  %b = phi i64 [ %offset, %entry ], [ %b1, %good ]
  %s.p = getelementptr i8, ptr %states, i64 %b
  %s = load i8, ptr %s.p
  %need = or i8 %need.r, %need.w
  %has = and i8 %s, %need
  %ok = icmp eq i8 %has, %need
  br i1 %ok, label %good, label %hardly
hardly:  ; padding: an element of which some byte was written counts as written
  %only = icmp eq i8 %s, {WRITABLE}
  br i1 %only, label %rest, label %bad
rest:
  %element64 = zext i32 %element to i64
  %since = sub i64 %b, %offset
  %index = udiv i64 %since, %element64
  %skip = mul i64 %index, %element64
  %from = add i64 %offset, %skip
  %to = add i64 %from, %element64
  br label %each.rest
each.rest:
  %k = phi i64 [ %from, %rest ], [ %k1, %each.rest ]
  %some = phi i8 [ 0, %rest ], [ %some1, %each.rest ]
  %k.p = getelementptr i8, ptr %states, i64 %k
  %k.s = load i8, ptr %k.p
  %some1 = or i8 %some, %k.s
  %k1 = add i64 %k, 1
  %k.more = icmp ult i64 %k1, %to
  br i1 %k.more, label %each.rest, label %padding
padding:
  %some.bit = and i8 %some1, {READABLE}
  %partly = icmp ne i8 %some.bit, 0
  br i1 %partly, label %good, label %bad
good:
  %s1 = or i8 %s, %gain
  store i8 %s1, ptr %s.p
  %b1 = add i64 %b, 1
  %more.bytes = icmp ult i64 %b1, %end.byte
  br i1 %more.bytes, label %byte, label %races
bad:
  %freed = icmp eq i8 %s, {FREED}
  %gap = icmp eq i8 %s, {ROW_GAP}
  %writable.bit = and i8 %s, {WRITABLE}
  %readable.bit = and i8 %s, {READABLE}
  %can.write = icmp ne i8 %writable.bit, 0
  %can.read = icmp ne i8 %readable.bit, 0
  %kind0 = select i1 %freed, i64 {GLOBAL_FREED}, i64 {GLOBAL_OUTSIDE}
  %kind1 = select i1 %gap, i64 {GLOBAL_ROW_GAP}, i64 %kind0
  %kind2 = select i1 %can.write, i64 {GLOBAL_UNWRITTEN}, i64 %kind1
  %kind = select i1 %can.read, i64 {GLOBAL_CONSTANT}, i64 %kind2
{_report("bad", "%kind")}
  br label %leave
races:
  %b64 = shl i64 %number, {BLOCK_SHIFT}
  %mine.clock = shl i64 %clock, {CLOCK_SHIFT}
  %mine.high = or i64 %b64, %mine.clock
  %mine = or i64 %mine.high, %low
  %first = udiv i64 %offset, {cell_bytes}
  %end.up = add i64 %end.byte, {cell_bytes - 1}
  %end = udiv i64 %end.up, {cell_bytes}
  br label %each
each:
  %c = phi i64 [ %first, %races ], [ %c1, %next ]
  %w.p = getelementptr i64, ptr %all.w, i64 %c
  %r.p = getelementptr i64, ptr %all.r, i64 %c
  br i1 %writes, label %put, label %note
put:  ; put down the write, then look who has read: of two that meet, one sees the other
  %w.old = atomicrmw xchg ptr %w.p, i64 %mine seq_cst
  %r.seen = load atomic i64, ptr %r.p seq_cst, align 8
  br label %judge
note:
  %r.old = load atomic i64, ptr %r.p monotonic, align 8
  %r.new = call i64 @tw.memory.joined(ptr %launch, ptr %block, i64 %r.old, i64 %mine, i32 %w, i32 %thread, i64 %clock)
  %unchanged = icmp eq i64 %r.new, %r.old
  br i1 %unchanged, label %noted, label %swap
swap:
  %swapped = cmpxchg ptr %r.p, i64 %r.old, i64 %r.new seq_cst seq_cst
  %done = extractvalue {{ i64, i1 }} %swapped, 1
  br i1 %done, label %noted, label %note
noted:
  %w.seen = load atomic i64, ptr %w.p seq_cst, align 8
  br label %judge
judge:
  %v = phi i64 [ %w.old, %put ], [ %w.seen, %noted ]
  %r = phi i64 [ %r.seen, %put ], [ 0, %noted ]
  %hit = call i32 @tw.memory.global.races(ptr %launch, ptr %block, i64 %v, i64 %number, i32 %w, i32 %thread,
                                          i64 %clock, i1 %strong)
  %race = icmp ne i32 %hit, 0
  br i1 %race, label %value, label %readers
value:
  %alike = icmp eq i32 %hit, {GLOBAL_LANES}
  %same = call i1 @tw.memory.same(ptr %memory, i32 %lane, i64 %address, i32 %bytes, i32 %element, i32 %mask,
                                  ptr %addresses, ptr %values, i1 %alike)
  br i1 %same, label %readers, label %tell
tell:
  %hit64 = zext i32 %hit to i64
{_report("war", "%hit64", "true", "%v")}
  br label %readers
readers:
  %r.hit = call i32 @tw.memory.global.races(ptr %launch, ptr %block, i64 %r, i64 %number, i32 %w, i32 %thread,
                                            i64 %clock, i1 %strong)
  %r.race = icmp ne i32 %r.hit, 0
  br i1 %r.race, label %r.tell, label %next
r.tell:
  %r.hit64 = zext i32 %r.hit to i64
{_report("rar", "%r.hit64", "false", "%r")}
  br label %next
next:
  %c1 = add i64 %c, 1
  %more = icmp ult i64 %c1, %end
  br i1 %more, label %each, label %leave
leave:
  ret void
}}
"""


_GLOBAL = f"""
; tw.memory.global.races(launch, block, cell, number, warp, thread, clock, strong): 0, or the kind of race.
define internal i32 @tw.memory.global.races(ptr %launch, ptr %block, i64 %cell, i64 %number, i32 %w, i32 %thread,
                                            i64 %clock, i1 %strong) {{
entry:
  %none = icmp eq i64 %cell, 0
  br i1 %none, label %no, label %look
look:
  %s0 = lshr i64 %cell, {STRONG_BIT}
  %s1 = trunc i64 %s0 to i1
  %both = and i1 %s1, %strong
  br i1 %both, label %no, label %place
place:
  %its.block = lshr i64 %cell, {BLOCK_SHIFT}
  %its.shifted = lshr i64 %cell, {CLOCK_SHIFT}
  %its = and i64 %its.shifted, 65535
  %here = icmp eq i64 %its.block, %number
  br i1 %here, label %mates, label %far
mates:
  %hit = call i1 @tw.memory.races(ptr %block, i64 %cell, i64 %its, i32 %w, i32 %thread, i64 %clock, i1 %strong)
  br i1 %hit, label %near, label %no
near:
  %ours = call i1 @tw.memory.ours(i64 %cell, i32 %w)
  %kind = select i1 %ours, i32 {GLOBAL_LANES}, i32 {GLOBAL_RACE}
  br label %ask
far:
  br label %ask
ask:
  %what = phi i32 [ %kind, %near ], [ {GLOBAL_BLOCKS}, %far ]
  %ordered = call i1 @tw.memory.ordered(ptr %launch, ptr %block,
    i64 %number, i64 %its.block, i32 %w, i64 %cell, i64 %its)
  br i1 %ordered, label %no, label %yes
yes:
  ret i32 %what
no:
  ret i32 0
}}

; tw.memory.joined(launch, block, cell, mine, warp, thread, clock): R of global memory after one more read.
define internal i64 @tw.memory.joined(ptr %launch, ptr %block, i64 %cell, i64 %mine, i32 %w, i32 %thread,
                                       i64 %clock) {{
entry:
  %none = icmp eq i64 %cell, 0
  br i1 %none, label %set, label %look
set:
  ret i64 %mine
look:
  %its.block = lshr i64 %cell, {BLOCK_SHIFT}
  %my.block = lshr i64 %mine, {BLOCK_SHIFT}
  %here = icmp eq i64 %its.block, %my.block
  %its.shifted = lshr i64 %cell, {CLOCK_SHIFT}
  %its = and i64 %its.shifted, 65535
  br i1 %here, label %mates, label %far
far:
  %far.ordered = call i1 @tw.memory.ordered(ptr %launch, ptr %block,
    i64 %my.block, i64 %its.block, i32 %w, i64 %cell, i64 %its)
  br i1 %far.ordered, label %set, label %many
many:
  %either = and i64 %cell, %mine
  %blocks.strong = and i64 %either, {1 << STRONG_BIT}
  %blocks = or i64 %blocks.strong, {SEVERAL_BLOCKS}
  ret i64 %blocks
mates:
  %keep = call i1 @tw.memory.races(ptr %block, i64 %cell, i64 %its, i32 %w, i32 %thread, i64 %clock, i1 false)
  br i1 %keep, label %asked, label %again
asked:
  %ordered = call i1 @tw.memory.ordered(ptr %launch, ptr %block,
    i64 %my.block, i64 %my.block, i32 %w, i64 %cell, i64 %its)
  br i1 %ordered, label %set, label %both
again:  ; by the same thread at the same clock nothing changes, so that most reads write nothing
  %like = xor i64 %cell, %mine
  %rest = and i64 %like, {~(4095 << SITE_SHIFT)}
  %equal = icmp eq i64 %rest, 0
  %kept = select i1 %equal, i64 %cell, i64 %mine
  ret i64 %kept
both:
  %weaker = or i64 %cell, {SEVERAL_BLOCKS}
  %part0 = and i64 %mine, {~WHO_MASK}
  %part = and i64 %part0, %weaker
  %ours = call i1 @tw.memory.ours(i64 %cell, i32 %w)
  %w.many = add i32 %w, {THREAD_MAX}
  %w.many64 = zext i32 %w.many to i64
  %who = select i1 %ours, i64 %w.many64, i64 {SEVERAL_WARPS}
  %mixed = or i64 %part, %who
  %now = call i64 @tw.memory.sites(i64 %mixed, i64 %cell)
  ret i64 %now
}}

; tw.memory.ordered(launch, block, number, its block, warp, cell, its clock): whether fences and atomics ordered it.
define internal i1 @tw.memory.ordered(ptr %launch, ptr %block,
                                      i64 %number, i64 %its.block, i32 %w, i64 %cell, i64 %its) {{
entry:
  %orders.p = getelementptr i8, ptr %launch, i64 {LAUNCH["orders"]}
  %orders = load i64, ptr %orders.p
  %none = icmp eq i64 %orders, 0
  br i1 %none, label %no, label %ask
ask:
  %function.p = getelementptr i8, ptr %launch, i64 {LAUNCH["order"]}
  %function = load ptr, ptr %function.p
  %seen.at = zext i32 %w to i64
  %seen.byte = shl i64 %seen.at, 3
  %seen.off = add i64 %seen.byte, {SEEN}
  %seen.p = getelementptr i8, ptr %block, i64 %seen.off
  store i64 0, ptr %seen.p
  %who = and i64 %cell, {WHO_MASK}
  %cell.any = or i64 %cell, {1 << STRONG_BIT}
  %several = icmp eq i64 %cell.any, -1
  %w64 = zext i32 %w to i64
  %b = select i1 %several, i64 -1, i64 %its.block
  %answer = call i32 %function(i64 0, i64 %number, i64 %w64, i64 %b, i64 %who, i64 %its)
  %is = icmp ne i32 %answer, 0
  ret i1 %is
no:
  ret i1 false
}}
"""


def local_text() -> str:
    """`tw.memory.local(LANE)`: bounds and initialisation of one lane's local memory, byte by byte."""
    return f"""
define internal void @tw.memory.local({LANE}) noinline {{
entry:
{_facts()}
  %states.p = getelementptr i8, ptr %launch, i64 {LAUNCH["local_states"]}
  %states.at = load i64, ptr %states.p
  %size.p = getelementptr i8, ptr %launch, i64 {LAUNCH["local_bytes"]}
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
{_report("out", str(LOCAL_OUTSIDE))}
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
{_report("raw", str(LOCAL_UNWRITTEN))}
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


def text_of(space: str, cell_bytes: int) -> str:
    """Everything that judging a lane's access in a space needs; `tw.memory.SPACE(LANE)` is what is called."""
    common = "declare i32 @llvm.umin.i32(i32, i32)\n" + REPORT
    if space == "local":
        return common + local_text()
    judged = shared_text(cell_bytes) if space == "shared" else global_text(cell_bytes)
    return common + _RACES + _SAME + _GLOBAL + judged
