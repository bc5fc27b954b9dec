"""What judgements of accesses share: whether two are ordered or write the same, and what is recorded."""

from __future__ import annotations

from tilewright.instruments.shadow.cells import (
    BLOCK_MAX,
    CLOCK_SHIFT,
    KNOWN,
    LANES_AT,
    LANES_BYTES,
    LAUNCH,
    SEEN,
    SEVERAL_WARPS,
    SITE_MAX,
    SITE_SHIFT,
    STRONG_BIT,
    THREAD_MAX,
    WARPS_MAX,
    WHO_MASK,
    WHOLE,
)
from tilewright.instruments.shadow.orders import NOT_ORDERED
from tilewright.instruments.shadow.records import tag_text
from tilewright.simt.events import FIELDS, VALUES_STRIDE_BYTES

_V = f"<{WARPS_MAX} x i32>"

#: What every lane's judgement is given; `how` has bits 1 reads, 2 writes, 4 strong.
LANE = (
    "ptr %slot, ptr %launch, ptr %block, i32 %row, i32 %w, i64 %clock, i32 %lane, i64 %address, i32 %bytes, i32 %how, "
    "i32 %element, i32 %mask, ptr %addresses, ptr %values"
)

#: Whether two accesses are ordered, and whose they are.
RACES = f"""
declare i32 @llvm.vector.reduce.umax.v{WARPS_MAX}i32({_V})
declare i32 @llvm.ctlz.i32(i32, i1)
declare i32 @llvm.usub.sat.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)

; tw.memory.apart(block, who, its clock, warp, thread): whether an access by lanes of our warp, since all of them were
; ordered, is not known to our lane. A tile has an accessing lane in each half, so a half that we know nothing of tells.
define internal i1 @tw.memory.apart(ptr %block, i32 %who, i64 %its, i32 %w, i32 %thread) noinline {{
entry:
  %at.p = getelementptr i8, ptr %block, i64 {LANES_AT}
  %at = load i64, ptr %at.p
  %none = icmp eq i64 %at, 0
  br i1 %none, label %yes, label %look
yes:
  ret i1 true
look:
  %from = mul i32 %w, {LANES_BYTES}
  %from64 = zext i32 %from to i64
  %off = add i64 %at, %from64
  %rows.p = getelementptr i8, ptr %block, i64 %off
  %lane = and i32 %thread, 31
  %row.p = getelementptr {_V}, ptr %rows.p, i32 %lane
  %row = load {_V}, ptr %row.p, align 4
  %its32 = trunc i64 %its to i32
  %its.one = insertelement {_V} poison, i32 %its32, i32 0
  %its.all = shufflevector {_V} %its.one, {_V} poison, {_V} zeroinitializer
  %later = icmp ule {_V} %row, %its.all
  %later.bits = bitcast <{WARPS_MAX} x i1> %later to i32
  %own = shl i32 1, %lane
  %own.not = xor i32 %own, -1
  %unknown = and i32 %later.bits, %own.not
  %many = icmp uge i32 %who, {THREAD_MAX}
  br i1 %many, label %tile, label %one
one:
  %its.lane = and i32 %who, 31
  %bit = lshr i32 %unknown, %its.lane
  %hit = trunc i32 %bit to i1
  ret i1 %hit
tile:
  %above = lshr i32 %who, 5
  %node = sub i32 %above, {THREAD_MAX // WARPS_MAX - 1}  ; 1: all lanes, 2 and 3: halves of them
  %zeros = call i32 @llvm.ctlz.i32(i32 %node, i1 true)
  %levels = sub i32 %zeros, 26  ; from its tile down to single lanes
  %leaf = shl i32 %node, %levels
  %first = sub i32 %leaf, 32
  %half = sub i32 %levels, 1
  %size = shl i32 1, %half
  %ones = shl i32 1, %size
  %low = sub i32 %ones, 1
  %lower = shl i32 %low, %first
  %upper = shl i32 %lower, %size
  %lower.unknown = and i32 %unknown, %lower
  %upper.unknown = and i32 %unknown, %upper
  %in.lower = icmp eq i32 %lower.unknown, %lower
  %in.upper = icmp eq i32 %upper.unknown, %upper
  %either = or i1 %in.lower, %in.upper
  ret i1 %either
}}

; tw.memory.both(cell, mine, warp, ours): the cell of two reads of a block that nothing orders, ours: by one warp.
define internal i64 @tw.memory.both(i64 %cell, i64 %mine, i32 %w, i1 %ours) noinline {{
entry:
  %its = lshr i64 %cell, {CLOCK_SHIFT}
  %now = lshr i64 %mine, {CLOCK_SHIFT}
  %least = call i64 @llvm.umin.i64(i64 %its, i64 %now)
  %time = shl i64 %least, {CLOCK_SHIFT}
  %differ0 = xor i64 %cell, %mine
  %differ = and i64 %differ0, {SITE_MAX << SITE_SHIFT}
  %like = icmp eq i64 %differ, 0
  %site0 = and i64 %mine, {SITE_MAX << SITE_SHIFT}
  %site = select i1 %like, i64 %site0, i64 {SITE_MAX << SITE_SHIFT}
  %strong0 = and i64 %cell, %mine
  %strong = and i64 %strong0, {1 << STRONG_BIT}
  %a = call i32 @tw.memory.node(i64 %cell)
  %b = call i32 @tw.memory.node(i64 %mine)
  %a.zeros = call i32 @llvm.ctlz.i32(i32 %a, i1 true)
  %b.zeros = call i32 @llvm.ctlz.i32(i32 %b, i1 true)
  %a.deeper = call i32 @llvm.usub.sat.i32(i32 %b.zeros, i32 %a.zeros)
  %b.deeper = call i32 @llvm.usub.sat.i32(i32 %a.zeros, i32 %b.zeros)
  %a.up = lshr i32 %a, %a.deeper
  %b.up = lshr i32 %b, %b.deeper
  %unlike = xor i32 %a.up, %b.up
  %unlike.zeros = call i32 @llvm.ctlz.i32(i32 %unlike, i1 false)
  %up = sub i32 32, %unlike.zeros
  %node = lshr i32 %a.up, %up
  %single = icmp uge i32 %node, 32
  %lane = and i32 %node, 31
  %w.first = shl i32 %w, 5
  %thread = or i32 %w.first, %lane
  %above = add i32 %node, {THREAD_MAX // WARPS_MAX - 1}
  %tile.first = shl i32 %above, 5
  %tile = or i32 %tile.first, %w
  %lanes = select i1 %single, i32 %thread, i32 %tile
  %who = select i1 %ours, i32 %lanes, i32 {SEVERAL_WARPS}
  %who64 = zext i32 %who to i64
  %t1 = or i64 %time, %site
  %t2 = or i64 %t1, %strong
  %t3 = or i64 %t2, %who64
  ret i64 %t3
}}

; tw.memory.node(cell): the lane or tile of a cell by one warp, as the number of a node of the tree above 32 leaves.
define internal i32 @tw.memory.node(i64 %cell) alwaysinline {{
  %who64 = and i64 %cell, {WHO_MASK}
  %who = trunc i64 %who64 to i32
  %many = icmp uge i32 %who, {THREAD_MAX}
  %above = lshr i32 %who, 5
  %tile = sub i32 %above, {THREAD_MAX // WARPS_MAX - 1}
  %lane = and i32 %who, 31
  %leaf = or i32 %lane, 32
  %node = select i1 %many, i32 %tile, i32 %leaf
  ret i32 %node
}}

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
  %q.many = and i32 %who, {WARPS_MAX - 1}
  %q.one = lshr i32 %who, 5
  %q = select i1 %many, i32 %q.many, i32 %q.one
  %ours = icmp eq i32 %q, %w
  br i1 %ours, label %lanes, label %warps
lanes:
  %whole.at = shl i64 %w64, 3
  %whole.off = add i64 %whole.at, {WHOLE}
  %whole.p = getelementptr i8, ptr %block, i64 %whole.off
  %whole = load i64, ptr %whole.p
  %unsynced = icmp uge i64 %its, %whole
  br i1 %unsynced, label %parts, label %no
parts:
  %apart = call i1 @tw.memory.apart(ptr %block, i32 %who, i64 %its, i32 %w, i32 %thread)
  ret i1 %apart
warps:
  %its.p = getelementptr i32, ptr %known.p, i32 %q
  %far = load i32, ptr %its.p, align 4
  %far64 = zext i32 %far to i64
  %unknown = icmp uge i64 %its, %far64
  ret i1 %unknown
}}

; tw.memory.keeps(cell, limit, strong): whether a cell of shared memory stays as it is under a strong access.
define internal i1 @tw.memory.keeps(i64 %cell, i64 %limit, i1 %strong) alwaysinline {{
  %bit = and i64 %cell, {1 << STRONG_BIT}
  %weak = icmp eq i64 %bit, 0
  %recent = icmp uge i64 %cell, %limit
  %both = and i1 %weak, %recent
  %stays = and i1 %both, %strong
  ret i1 %stays
}}

; tw.memory.ours(cell, warp): whether a cell's access was by this warp alone.
define internal i1 @tw.memory.ours(i64 %cell, i32 %w) alwaysinline {{
  %who64 = and i64 %cell, {WHO_MASK}
  %who = trunc i64 %who64 to i32
  %many = icmp uge i32 %who, {THREAD_MAX}
  %q.many = and i32 %who, {WARPS_MAX - 1}
  %q.one = lshr i32 %who, 5
  %q = select i1 %many, i32 %q.many, i32 %q.one
  %like = icmp eq i32 %q, %w
  %one = icmp ne i32 %who, {SEVERAL_WARPS}
  %is = and i1 %like, %one
  ret i1 %is
}}
"""

#: Whether what is written is there already: in memory, or by a lower lane of the same instruction at the same address.
SAME = f"""
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


#: Whether fences and atomics ordered an access that would race otherwise.
ORDERED = f"""
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
  %several = icmp eq i64 %its.block, {BLOCK_MAX + 1}
  %w64 = zext i32 %w to i64
  %b = select i1 %several, i64 -1, i64 %its.block
  %answer = call i32 %function(i64 0, i64 %number, i64 %w64, i64 %b, i64 %who, i64 %its)
  %is = icmp ne i32 %answer, {NOT_ORDERED}
  ret i1 %is
no:
  ret i1 false
}}
"""


def facts() -> str:
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
"""


def report(prefix: str, kind: str, other_wrote: str = "false", cell: str = "0") -> str:
    """Record a finding of a kind, with the other access's cell where there is one."""
    return (
        tag_text(prefix, kind, "%writes", other_wrote, cell)
        + f"  call void @tw.memory.report(ptr %launch, i64 %{prefix}.tag, i64 %key, i64 %address, i64 {cell})\n"
    )
