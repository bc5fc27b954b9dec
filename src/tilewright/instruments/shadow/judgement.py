"""The one copy of the judgement of a state space, as an LLVM module that all its accesses' handlers call.

`tw.memory.turns.SPACE` judges an access lane by lane; `tw.memory.pattern.SPACE` accesses with a known pattern, and
`tw.memory.free.SPACE` one whose addresses are known only now: both try the quick tests first.
"""

from __future__ import annotations

import functools

from tilewright.instruments.shadow.cells import (
    BLOCK_MAX,
    BLOCK_SHIFT,
    CLOCK_MAX,
    CLOCK_SHIFT,
    LAUNCH,
    READABLE,
    READS,
    SEEN,
    SEVERAL_BLOCKS,
    SITE_MAX,
    SITE_SHIFT,
    STRONG,
    WRITES,
)
from tilewright.instruments.shadow.clocks import warp_text
from tilewright.instruments.shadow.conflicts import ORDERED, RACES, SAME
from tilewright.instruments.shadow.global_lanes import GLOBAL_RACES, global_text
from tilewright.instruments.shadow.lanes import local_text, shared_text
from tilewright.instruments.shadow.orders import ACCESS, SHARED
from tilewright.instruments.shadow.quick import CHANGED, global_reads, global_runs, shared_reads, shared_writes
from tilewright.instruments.shadow.records import REPORT
from tilewright.simt.events import FIELDS, GLOBAL_BASE

#: What `tw.memory.turns` and `tw.memory.free` take: `%told` has what `orders.Orders` is told, 0 for nothing; `%values`
#: is null where nothing is stored.
TURNS = (
    "ptr %slot, ptr %warp, ptr %launch, ptr %block, i32 %row, i32 %mask, ptr %addresses, i32 %bytes, i32 %how, "
    "i32 %element, i32 %told, ptr %values"
)
#: What `tw.memory.pattern` takes: rows of a table (`tables`), and the accesses, each of which has its byte offset,
#: bytes and bytes of an element (i64 each), and the lanes' offsets (32 x i64).
PATTERN = (
    "ptr %slot, ptr %warp, ptr %launch, ptr %block, i32 %row, i32 %mask, i64 %base, i32 %how, ptr %values, ptr %rows, "
    "i64 %count, ptr %members, i64 %of, ptr %offsets"
)
MEMBER_BYTES = 24


@functools.cache
def text_of(space: str, cell_bytes: int) -> str:
    """The module of a state space, for cells of so many bytes."""
    text = REPORT
    if space == "local":
        return text + local_text() + _turns(space, cell_bytes)
    text += RACES + ORDERED
    if space == "shared":
        text += SAME + shared_text(cell_bytes) + shared_reads(cell_bytes) + shared_writes(cell_bytes)
    else:
        text += GLOBAL_RACES + global_text(cell_bytes) + global_reads(cell_bytes) + global_runs(cell_bytes)
        text += _single(cell_bytes) + _gathered(cell_bytes) + _free(cell_bytes)
    return text + _TOLD + _turns(space, cell_bytes) + _pattern(space, cell_bytes)


def _turns(space: str, cell_bytes: int) -> str:
    """Judge lane by lane."""
    told = ""
    if space != "local":
        told = """
  %tells = icmp ne i32 %told, 0
  br i1 %tells, label %tell, label %judge
tell:
  call void @tw.memory.told(ptr %slot, ptr %launch, ptr %block, i32 %w, i64 %clock, i64 %a, i32 %told, i32 %how)
  br label %judge
judge:"""
    quick = single = ""
    if space == "global":
        single = f"  %narrow = icmp eq i32 %bytes, {cell_bytes}\n  %loads = icmp eq i32 %how, {READS}\n"
        single += "  %simple = and i1 %narrow, %loads\n"
        quick = """
  br i1 %simple, label %single, label %exact
single:
  %good = call i1 @tw.memory.global.single(ptr %slot, ptr %launch, i32 %row, i32 %w, i64 %clock, i32 %lane, i64 %a)
  br i1 %good, label %turn, label %exact
exact:"""
    last = "exact" if quick else "judge" if told else "one"
    return f"""
define void @tw.memory.turns.{space}({TURNS}) noinline {{
entry:
{warp_text()}
  %clock = load i64, ptr %clock.p
{single}{CHANGED if space == "shared" else ""}
  br label %turn
turn:
  %left = phi i32 [ %mask, %entry ], [ %rest, %{last} ]{", [ %rest, %single ]" if quick else ""}
  %none = icmp eq i32 %left, 0
  br i1 %none, label %leave, label %one
one:
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %less = sub i32 %left, 1
  %rest = and i32 %left, %less
  %a.p = getelementptr i64, ptr %addresses, i32 %lane
  %a = load i64, ptr %a.p, align 8{told}{quick}
  call void @tw.memory.{space}(ptr %slot, ptr %launch, ptr %block, i32 %row, i32 %w, i64 %clock, i32 %lane, i64 %a,
    i32 %bytes, i32 %how, i32 %element, i32 %mask, ptr %addresses, ptr %values)
  br label %turn
leave:
  ret void
}}
"""


def _pattern(space: str, cell_bytes: int) -> str:
    """All accesses at once, or one after the other."""
    if space == "shared":
        given = "ptr %launch, ptr %block, i32 %row, i32 %w, i64 %base, ptr %rows, i64 %count"
        quick = f"""
  %stores = icmp eq i32 %how, {WRITES}
  br i1 %stores, label %store, label %load
store:
  %stored = call i1 @tw.memory.shared.writes({given})
  br i1 %stored, label %leave, label %lanes
load:
  %loaded = call i1 @tw.memory.shared.reads({given})
  br i1 %loaded, label %leave, label %lanes
"""
    else:
        quick = f"""
  %clock = load i64, ptr %clock.p
  %number.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.block"]}
  %number = load i64, ptr %number.p
  %start.byte = sub i64 %base, {GLOBAL_BASE}
  %start = sdiv i64 %start.byte, {cell_bytes}
  %loaded = call i1 @tw.memory.global.reads(ptr %launch, i64 %number, i64 %clock, i64 %start, ptr %rows, i64 %count)
  br i1 %loaded, label %leave, label %lanes
"""
    return f"""
define void @tw.memory.pattern.{space}({PATTERN}) noinline {{
entry:
  %addresses = alloca <32 x i64>, align 64
{warp_text()}
  %full = icmp eq i32 %mask, -1
  br i1 %full, label %quick, label %lanes
quick:
{quick}
lanes:
  br label %each
each:
  %i = phi i64 [ 0, %lanes ], [ %i1, %each ]
  %member = getelementptr [{MEMBER_BYTES} x i8], ptr %members, i64 %i
  %ahead = load i64, ptr %member, align 8
  %bytes.p = getelementptr i8, ptr %member, i64 8
  %bytes64 = load i64, ptr %bytes.p, align 8
  %bytes = trunc i64 %bytes64 to i32
  %element.p = getelementptr i8, ptr %member, i64 16
  %element64 = load i64, ptr %element.p, align 8
  %element = trunc i64 %element64 to i32
  %at = add i64 %base, %ahead
  %at.one = insertelement <32 x i64> poison, i64 %at, i32 0
  %at.all = shufflevector <32 x i64> %at.one, <32 x i64> poison, <32 x i32> zeroinitializer
  %steps = load <32 x i64>, ptr %offsets, align 8
  %spread = add <32 x i64> %at.all, %steps
  store <32 x i64> %spread, ptr %addresses, align 64
  %i32 = trunc i64 %i to i32
  %its.row = add i32 %row, %i32
  call void @tw.memory.turns.{space}(ptr %slot, ptr %warp, ptr %launch, ptr %block, i32 %its.row, i32 %mask,
    ptr %addresses, i32 %bytes, i32 %how, i32 %element, i32 0, ptr %values)
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %of
  br i1 %more, label %each, label %leave
leave:
  ret void
}}
"""


def _free(cell_bytes: int) -> str:
    """Loads of global memory from addresses that are known only now: rows of lanes, or lanes that differ freely."""
    return f"""
define void @tw.memory.free.global({TURNS}) noinline {{
entry:
{warp_text()}
  %clock = load i64, ptr %clock.p
  %number.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.block"]}
  %number = load i64, ptr %number.p
  %whole = icmp eq i32 %mask, -1
  %loads = icmp eq i32 %how, {READS}
  %quick = and i1 %whole, %loads
  br i1 %quick, label %rows, label %turns
rows:
  %in.rows = call i1 @tw.memory.global.runs(ptr %launch, i64 %number, i64 %clock, ptr %addresses, i32 %bytes)
  br i1 %in.rows, label %leave, label %apart
apart:
  %narrow = icmp eq i32 %bytes, {cell_bytes}
  br i1 %narrow, label %gather, label %turns
gather:
  %gathered = call i1 @tw.memory.global.gathered(ptr %launch, ptr %addresses)
  br i1 %gathered, label %leave, label %turns
turns:
  call void @tw.memory.turns.global(ptr %slot, ptr %warp, ptr %launch, ptr %block, i32 %row, i32 %mask,
    ptr %addresses, i32 %bytes, i32 %how, i32 %element, i32 %told, ptr %values)
  br label %leave
leave:
  ret void
}}
"""


def _words(*names: str) -> str:
    return "".join(
        f"  %{name}.p = getelementptr i8, ptr %launch, i64 {LAUNCH[name]}\n  %{name} = load ptr, ptr %{name}.p\n"
        for name in names
    )


def _gathered(cell_bytes: int) -> str:
    """All lanes' cells: readable, read by several blocks already, and not written in this launch."""
    bits = 8 * cell_bytes
    ones = sum(READABLE << 8 * i for i in range(cell_bytes))
    true = "<32 x i1> splat (i1 true)"
    return f"""
define internal i1 @tw.memory.global.gathered(ptr %launch, ptr %addresses) noinline {{
entry:
{_words("states", "writes", "reads")}
  %all = load <32 x i64>, ptr %addresses, align 64
  %offset = sub <32 x i64> %all, splat (i64 {GLOBAL_BASE})
  %state.p = getelementptr i8, ptr %states, <32 x i64> %offset
  %state = call <32 x i{bits}> @llvm.masked.gather.v32i{bits}.v32p0(
    <32 x ptr> align 1 %state.p, {true}, <32 x i{bits}> zeroinitializer)
  %bits = and <32 x i{bits}> %state, splat (i{bits} {ones})
  %fine = icmp eq <32 x i{bits}> %bits, splat (i{bits} {ones})
  %readable = call i1 @llvm.vector.reduce.and.v32i1(<32 x i1> %fine)
  br i1 %readable, label %readers, label %no
readers:
  %cell = lshr <32 x i64> %offset, splat (i64 {cell_bytes.bit_length() - 1})
  %r.p = getelementptr i64, ptr %reads, <32 x i64> %cell
  %r = call <32 x i64> @llvm.masked.gather.v32i64.v32p0(<32 x ptr> align 8 %r.p, {true}, <32 x i64> zeroinitializer)
  %several = icmp eq <32 x i64> %r, splat (i64 {SEVERAL_BLOCKS})
  %settled = call i1 @llvm.vector.reduce.and.v32i1(<32 x i1> %several)
  br i1 %settled, label %writers, label %no
writers:
  %w.p = getelementptr i64, ptr %writes, <32 x i64> %cell
  %w = call <32 x i64> @llvm.masked.gather.v32i64.v32p0(<32 x ptr> align 8 %w.p, {true}, <32 x i64> zeroinitializer)
  %none = icmp eq <32 x i64> %w, zeroinitializer
  %clean = call i1 @llvm.vector.reduce.and.v32i1(<32 x i1> %none)
  ret i1 %clean
no:
  ret i1 false
}}
"""


def _single(cell_bytes: int) -> str:
    """One lane's load of one cell: readable, not written in this launch, and put down in R by one exchange at most."""
    bits = 8 * cell_bytes
    ones = sum(READABLE << 8 * i for i in range(cell_bytes))
    return f"""
define internal i1 @tw.memory.global.single(ptr %slot, ptr %launch, i32 %row, i32 %w, i64 %clock, i32 %lane,
                                            i64 %a) alwaysinline {{
entry:
{_words("states", "writes", "reads")}
  %offset = sub i64 %a, {GLOBAL_BASE}
  %state.p = getelementptr i8, ptr %states, i64 %offset
  %state = load i{bits}, ptr %state.p, align 1
  %bits = and i{bits} %state, {ones}
  %readable = icmp eq i{bits} %bits, {ones}
  br i1 %readable, label %reader, label %no
reader:
  %cell = udiv i64 %offset, {cell_bytes}
  %r.p = getelementptr i64, ptr %reads, i64 %cell
  %w.p = getelementptr i64, ptr %writes, i64 %cell
  %r = load atomic i64, ptr %r.p monotonic, align 8
  %all = icmp eq i64 %r, {SEVERAL_BLOCKS}
  br i1 %all, label %writer, label %look
look:
  %number.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.block"]}
  %number = load i64, ptr %number.p
  %clock.fits = icmp ule i64 %clock, {CLOCK_MAX}
  %block.fits = icmp ule i64 %number, {BLOCK_MAX}
  %fits = and i1 %clock.fits, %block.fits
  %high = shl i64 %number, {BLOCK_SHIFT}
  %time = shl i64 %clock, {CLOCK_SHIFT}
  %row32 = call i32 @llvm.umin.i32(i32 %row, i32 {SITE_MAX})
  %row64 = zext i32 %row32 to i64
  %site = shl i64 %row64, {SITE_SHIFT}
  %w.first = shl i32 %w, 5
  %thread = or i32 %w.first, %lane
  %thread64 = zext i32 %thread to i64
  %m1 = or i64 %high, %time
  %m2 = or i64 %m1, %site
  %own = or i64 %m2, %thread64
  %unlike = xor i64 %r, %own
  %unlike.rest = and i64 %unlike, {~(SITE_MAX << SITE_SHIFT)}
  %same = icmp eq i64 %unlike.rest, 0
  br i1 %same, label %writer, label %change
change:
  %none = icmp eq i64 %r, 0
  %its = lshr i64 %r, {BLOCK_SHIFT}
  %far = icmp ne i64 %its, %number
  %either = or i1 %none, %far
  %simple = and i1 %either, %fits
  br i1 %simple, label %swap, label %no
swap:
  %next = select i1 %none, i64 %own, i64 {SEVERAL_BLOCKS}
  %swapped = cmpxchg ptr %r.p, i64 %r, i64 %next seq_cst seq_cst
  %set = extractvalue {{ i64, i1 }} %swapped, 1
  br i1 %set, label %writer, label %no
writer:
  %w.old = load atomic i64, ptr %w.p monotonic, align 8
  %clean = icmp eq i64 %w.old, 0
  ret i1 %clean
no:
  ret i1 false
}}
"""


#: Tell `orders.Orders` of one lane's strong access; a load that is repeated while it waits is told once.
_TOLD = f"""
define internal void @tw.memory.told(ptr %slot, ptr %launch, ptr %block, i32 %w, i64 %clock, i64 %a, i32 %told,
                                     i32 %how) noinline {{
entry:
  %w64 = zext i32 %w to i64
  %told64 = zext i32 %told to i64
  %weak = and i32 %how, {~STRONG & 7}
  %loads = icmp eq i32 %weak, {READS}
  %seen.at = shl i64 %w64, 3
  %seen.off = add i64 %seen.at, {SEEN}
  %seen.p = getelementptr i8, ptr %block, i64 %seen.off
  %last = load i64, ptr %seen.p
  %place = add i64 %a, 1  ; 0 is no place; shared memory has bit 48
  %space = and i64 %told64, {SHARED}
  %shared = icmp ne i64 %space, 0
  %space.bit = select i1 %shared, i64 {1 << 48}, i64 0
  %place.all = or i64 %place, %space.bit
  %mark = select i1 %loads, i64 %place.all, i64 0
  %same = icmp eq i64 %last, %mark
  %again = and i1 %same, %loads
  br i1 %again, label %leave, label %new
new:
  store i64 %mark, ptr %seen.p
  %number.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.block"]}
  %number = load i64, ptr %number.p
  %function.p = getelementptr i8, ptr %launch, i64 {LAUNCH["order"]}
  %function = load ptr, ptr %function.p
  %answer = call i32 %function(i64 {ACCESS}, i64 %number, i64 %w64, i64 %a, i64 %told64, i64 %clock)
  br label %leave
leave:
  ret void
}}
"""
