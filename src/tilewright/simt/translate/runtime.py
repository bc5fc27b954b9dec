"""The runtime module: LLVM text of the scheduler and of the cold paths that translated code calls.

One copy serves every kernel. `tw.run` runs blocks until the grid is finished or something must be decided by Python.
"""

from __future__ import annotations

from tilewright.simt.translate.barrier_runtime import barrier_ir
from tilewright.simt.translate.records import context_field, field, set_context, set_field
from tilewright.simt.translate.state import (
    BARRIERS_BYTES,
    BLOCKED,
    CALL_STACK_BYTES,
    DEADLOCK,
    DONE,
    FAULT,
    FINISHED,
    MISALIGNED,
    OUT_OF_BOUNDS,
    PAUSED,
    POINT_BYTES,
    PRINT_ARGUMENT_BYTES,
    PRINT_RECORD_BYTES,
    READY,
    SLOT,
    SLOT_BARRIERS,
    STALLED,
    STOP_REQUEST,
    STOPPED,
    WARP,
    WARP_POINTS,
    YIELDED,
)

#: Rounds in which no warp of a block finished or reached a barrier, after which another block gets its turn.
STALL_ROUNDS = 4


def runtime_ir() -> str:
    """The whole module's text."""
    return _record() + _fault() + _recheck() + _run() + _init() + barrier_ir() + _print()


def _record() -> str:
    """Leave the record of what happened for Python.

    tw.stop(context, warp, site, lanes, kind), and tw.where(context, slot) for a block that is stopped from outside:
    where the first warp that goes on last returned, a branch back or a barrier, if one did.
    """
    return f"""
define void @tw.stop(ptr %context, ptr %warp, i32 %site, i32 %lanes, i64 %kind) noinline {{
{field("index", "warp", WARP["index"], "i32")}
  %wide.site = zext i32 %site to i64
  %wide.lanes = zext i32 %lanes to i64
  %wide.index = zext i32 %index to i64
  %first = call i32 @llvm.cttz.i32(i32 %lanes, i1 false)
  %wide.first = zext i32 %first to i64
{set_context("fault_kind", "i64 %kind", "a")}
{set_context("fault_site", "i64 %wide.site", "b")}
{set_context("fault_lanes", "i64 %wide.lanes", "c")}
{set_context("fault_warp", "i64 %wide.index", "d")}
{set_context("fault_lane", "i64 %wide.first", "e")}
  ret void
}}
define void @tw.where(ptr %context, ptr %slot) noinline {{
entry:
{context_field("warps", "warps")}
{context_field("bytes", "warp_bytes")}
{field("records", "slot", SLOT["warp_records"], "ptr")}
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %at = mul i64 %i, %bytes
  %warp = getelementptr i8, ptr %records, i64 %at
{field("status", "warp", WARP["status"], "i32")}
{field("site", "warp", WARP["loop_site"], "i32")}
{field("lanes", "warp", WARP["loop_lanes"], "i32")}
  %somewhere = icmp ne i32 %site, 0
  %left = icmp ne i32 %status, {DONE}
  %here = and i1 %somewhere, %left
  br i1 %here, label %note, label %next
next:
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %warps
  br i1 %more, label %look, label %done
note:
  %index = sub i32 %site, 1
  call void @tw.stop(ptr %context, ptr %warp, i32 %index, i32 %lanes, i64 {STOP_REQUEST})
  br label %done
done:
  ret void
}}
declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.ctpop.i32(i32)
"""


def _fault() -> str:
    """tw.fault(context, warp, site, lanes, addresses, bytes): an access went wrong in these lanes."""
    return f"""
define void @tw.fault(ptr %context, ptr %warp, i32 %site, i32 %lanes, ptr %addresses, i32 %bytes) noinline {{
  %lane = call i32 @llvm.cttz.i32(i32 %lanes, i1 false)
  %p = getelementptr i64, ptr %addresses, i32 %lane
  %address = load i64, ptr %p
  %wide = zext i32 %bytes to i64
  %negative = sub i64 0, %wide
  %natural = and i64 %wide, %negative
  %ones = sub i64 %natural, 1
  %low = and i64 %address, %ones
  %aligned = icmp eq i64 %low, 0
  %kind = select i1 %aligned, i64 {OUT_OF_BOUNDS}, i64 {MISALIGNED}
  call void @tw.stop(ptr %context, ptr %warp, i32 %site, i32 %lanes, i64 %kind)
{set_context("fault_address", "i64 %address", "a")}
  ret void
}}
"""


def _recheck() -> str:
    """tw.recheck(context, warp, relative, limit, start, mask, pattern, table, count): lane by lane."""
    return """
define i1 @tw.recheck(ptr %context, ptr %warp, i64 %relative, i64 %limit, i64 %start, i32 %mask, ptr %pattern,
                      ptr %table, i32 %count) noinline {
entry:
  %addresses = alloca [32 x i64]
  br label %next
next:
  %i = phi i32 [ 0, %entry ], [ %i1, %good ]
  %more = icmp ult i32 %i, %count
  br i1 %more, label %member, label %inside
member:
  %row = mul i32 %i, 3
  %p0 = getelementptr i32, ptr %table, i32 %row
  %site = load i32, ptr %p0
  %p1 = getelementptr i32, ptr %p0, i32 1
  %offset32 = load i32, ptr %p1
  %offset = sext i32 %offset32 to i64
  %p2 = getelementptr i32, ptr %p0, i32 2
  %bytes32 = load i32, ptr %p2
  %bytes = zext i32 %bytes32 to i64
  %negative = sub i64 0, %bytes
  %natural = and i64 %bytes, %negative
  %ones = sub i64 %natural, 1
  br label %lane
lane:
  %l = phi i32 [ 0, %member ], [ %l1, %lane ]
  %bad = phi i32 [ 0, %member ], [ %bad1, %lane ]
  %pp = getelementptr i32, ptr %pattern, i32 %l
  %pattern32 = load i32, ptr %pp
  %shift = sext i32 %pattern32 to i64
  %a0 = add i64 %relative, %offset
  %a = add i64 %a0, %shift
  %e = add i64 %a, %bytes
  %absolute = add i64 %a, %start
  %ap = getelementptr i64, ptr %addresses, i32 %l
  store i64 %absolute, ptr %ap
  %c1 = icmp ugt i64 %a, %limit
  %c2 = icmp ugt i64 %e, %limit
  %low = and i64 %a, %ones
  %c3 = icmp ne i64 %low, 0
  %c4 = or i1 %c1, %c2
  %c5 = or i1 %c4, %c3
  %c6 = zext i1 %c5 to i32
  %bit = shl i32 %c6, %l
  %active = and i32 %bit, %mask
  %bad1 = or i32 %bad, %active
  %l1 = add i32 %l, 1
  %again = icmp ult i32 %l1, 32
  br i1 %again, label %lane, label %judge
judge:
  %fine = icmp eq i32 %bad1, 0
  br i1 %fine, label %good, label %fault
good:
  %i1 = add i32 %i, 1
  br label %next
fault:
  call void @tw.fault(ptr %context, ptr %warp, i32 %site, i32 %bad1, ptr %addresses, i32 %bytes32)
  ret i1 true
inside:
  ret i1 false
}
"""


def _run() -> str:
    """tw.run(context, slot): run blocks in a slot until Python must decide."""
    return f"""
define i32 @tw.run(ptr %context, ptr %slot) {{
entry:
  %here = alloca i64
  %here.at = ptrtoint ptr %here to i64
  %low = sub i64 %here.at, {CALL_STACK_BYTES}
{set_context("stack_low", "i64 %low", "st")}
{context_field("warps", "warps")}
{context_field("warp.bytes", "warp_bytes")}
{context_field("order", "warp_order", "ptr")}
{context_field("stop", "stop", "ptr")}
{context_field("may.stall", "may_stall")}
{context_field("points", "points")}
  %counts = icmp ne i64 %points, 0
{field("records", "slot", SLOT["warp_records"], "ptr")}
{field("was.active", "slot", SLOT["active"])}
  %busy = icmp ne i64 %was.active, 0
  br i1 %busy, label %begin, label %next.block

next.block:
  %asked.between = load atomic i32, ptr %stop monotonic, align 4
  %halt.between = icmp ne i32 %asked.between, 0
  br i1 %halt.between, label %halted, label %enough.between
enough.between:
{context_field("spent.between", "instructions")}
{context_field("pause.between", "pause_at")}
  %pause.now = icmp ugt i64 %spent.between, %pause.between
  br i1 %pause.now, label %paused, label %take
paused:
  ret i32 {PAUSED}
halted:
{field("halted.block", "slot", SLOT["block"])}
{set_context("fault_block", "i64 %halted.block", "h1")}
{set_context("fault_warp", "i64 0", "h2")}
  ret i32 {STOPPED}
take:
{context_field("counter", "next_block", "ptr")}
{context_field("blocks", "blocks")}
  %taken = atomicrmw add ptr %counter, i64 1 seq_cst
  %left = icmp ult i64 %taken, %blocks
  br i1 %left, label %start.block, label %grid.done
grid.done:
{set_field("slot", SLOT["active"], "i64 0", "gd")}
  ret i32 {FINISHED}
start.block:
  call void @tw.begin_block(ptr %context, ptr %slot, i64 %taken)
  br label %begin
begin:
  br label %round

round:
  %stalls = phi i32 [ 0, %begin ], [ %stalls2, %once.more ]
  br label %each
each:
  %i = phi i64 [ 0, %round ], [ %i1, %after ]
  %progress = phi i32 [ 0, %round ], [ %progress1, %after ]
  %yields = phi i32 [ 0, %round ], [ %yields1, %after ]
  %undone = phi i32 [ 0, %round ], [ %undone1, %after ]
  %o.p = getelementptr i32, ptr %order, i64 %i
  %o = load i32, ptr %o.p
  %o.wide = zext i32 %o to i64
  %at = mul i64 %o.wide, %warp.bytes
  %warp = getelementptr i8, ptr %records, i64 %at
{field("status", "warp", WARP["status"], "i32")}
  %ready = icmp eq i32 %status, {READY}
  br i1 %ready, label %call, label %idle
idle:
  %is.done = icmp eq i32 %status, {DONE}
  %u0 = select i1 %is.done, i32 0, i32 1
  br label %after.idle
call:
{context_field("function", "warp_function", "ptr")}
  %r = call i32 %function(ptr %context, ptr %slot, ptr %warp)
  switch i32 %r, label %fault [ i32 {DONE}, label %done i32 {BLOCKED}, label %blocked i32 {YIELDED}, label %yielded ]
done:
{set_field("warp", WARP["status"], f"i32 {DONE}", "d1")}
  br i1 %counts, label %depart, label %after.call
depart:
  call void @tw.depart(ptr %context, ptr %slot, ptr %warp)
  br label %after.call
blocked:
{set_field("warp", WARP["status"], f"i32 {BLOCKED}", "b1")}
  br i1 %counts, label %arrive, label %after.call
arrive:
  %wrong = call i1 @tw.arrive(ptr %context, ptr %slot, ptr %warp)
  br i1 %wrong, label %fault, label %after.call
yielded:
  %asked = load atomic i32, ptr %stop monotonic, align 4
  %halt = icmp ne i32 %asked, 0
  br i1 %halt, label %stopped, label %budget
budget:
{context_field("spent", "instructions")}
{context_field("allowed", "instruction_limit")}
  %over = icmp ugt i64 %spent, %allowed
  br i1 %over, label %stopped, label %after.yield
fault:
{field("block.index", "slot", SLOT["block"])}
{set_context("fault_block", "i64 %block.index", "f1")}
  ret i32 {FAULT}
stopped:
{field("stop.block", "slot", SLOT["block"])}
{set_context("fault_block", "i64 %stop.block", "s1")}
  call void @tw.where(ptr %context, ptr %slot)
  ret i32 {STOPPED}
after.call:
  br label %after
after.yield:
  br label %after
after.idle:
  br label %after
after:
  %dp = phi i32 [ 1, %after.call ], [ 0, %after.yield ], [ 0, %after.idle ]
  %dy = phi i32 [ 0, %after.call ], [ 1, %after.yield ], [ 0, %after.idle ]
  %du = phi i32 [ 1, %after.call ], [ 1, %after.yield ], [ %u0, %after.idle ]
  %progress1 = or i32 %progress, %dp
  %yields1 = or i32 %yields, %dy
  %undone1 = or i32 %undone, %du
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %warps
  br i1 %more, label %each, label %round.end
round.end:
  %all.done = icmp eq i32 %undone1, 0
  %yields.wide = zext i32 %yields1 to i64
  br i1 %all.done, label %next.block, label %waiting
waiting:
  ; without points, every warp that waits does so at a whole barrier: all go on when none is left to run
  %running = or i64 %points, %yields.wide
  %whole = icmp eq i64 %running, 0
  br i1 %whole, label %wake, label %stall.count
wake:
  %w = phi i64 [ 0, %waiting ], [ %w1, %wake ]
  %w.at = mul i64 %w, %warp.bytes
  %sleeper = getelementptr i8, ptr %records, i64 %w.at
{field("asleep", "sleeper", WARP["status"], "i32")}
  %blocked.here = icmp eq i32 %asleep, {BLOCKED}
  %awake = select i1 %blocked.here, i32 {READY}, i32 %asleep
  store i32 %awake, ptr %asleep.p, align 4
  %w1 = add i64 %w, 1
  %more.asleep = icmp ult i64 %w1, %warps
  br i1 %more.asleep, label %wake, label %again
stall.count:
  %still = icmp eq i32 %progress1, 0
  %bumped = add i32 %stalls, 1
  %stalls1 = select i1 %still, i32 %bumped, i32 0
  %idle.round = or i32 %progress1, %yields1
  %dead = icmp eq i32 %idle.round, 0
  br i1 %dead, label %deadlock, label %stall.check
stall.check:
  %long = icmp uge i32 %stalls1, {STALL_ROUNDS}
  %others = icmp ne i64 %may.stall, 0
  %give.way = and i1 %long, %others
  br i1 %give.way, label %stalled, label %again
again:
  %stalls2 = phi i32 [ %stalls1, %stall.check ], [ 0, %wake ]
  ; a loop that only meets barriers never runs out of fuel: look at the limits here too
  %asked.again = load atomic i32, ptr %stop monotonic, align 4
  %halt.again = icmp ne i32 %asked.again, 0
{context_field("spent.again", "instructions")}
{context_field("allowed.again", "instruction_limit")}
  %over.again = icmp ugt i64 %spent.again, %allowed.again
  %end.again = or i1 %halt.again, %over.again
  br i1 %end.again, label %stopped, label %once.more
once.more:
{context_field("pause.again", "pause_at")}
  %pause.here = icmp ugt i64 %spent.again, %pause.again
  br i1 %pause.here, label %paused.within, label %round
paused.within:
  call void @tw.where(ptr %context, ptr %slot)
  ret i32 {PAUSED}
stalled:
  call void @tw.where(ptr %context, ptr %slot)
  ret i32 {STALLED}
deadlock:
{field("dead.block", "slot", SLOT["block"])}
{set_context("fault_block", "i64 %dead.block", "dl")}
  ret i32 {DEADLOCK}
}}
"""


def _init() -> str:
    """tw.begin_block(context, slot, taken): a fresh block in a slot."""
    return f"""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @tw.begin_block(ptr %context, ptr %slot, i64 %taken) {{
entry:
{context_field("blocks", "blocks")}
{context_field("factor", "order_factor")}
{context_field("shift", "order_shift")}
  %scaled = mul i64 %taken, %factor
  %moved = add i64 %scaled, %shift
  %block = urem i64 %moved, %blocks
{context_field("gx", "grid_x")}
{context_field("gy", "grid_y")}
  %x = urem i64 %block, %gx
  %yz = udiv i64 %block, %gx
  %y = urem i64 %yz, %gy
  %z = udiv i64 %yz, %gy
{set_field("slot", SLOT["active"], "i64 1", "s0")}
{set_field("slot", SLOT["block"], "i64 %block", "s1")}
{set_field("slot", SLOT["ctaid_x"], "i64 %x", "s2")}
{set_field("slot", SLOT["ctaid_y"], "i64 %y", "s3")}
{set_field("slot", SLOT["ctaid_z"], "i64 %z", "s4")}
{set_field("slot", SLOT["gone"], "i64 0", "s5")}
  %barriers = getelementptr i8, ptr %slot, i64 {SLOT_BARRIERS}
  call void @llvm.memset.p0.i64(ptr %barriers, i8 0, i64 {BARRIERS_BYTES}, i1 false)
{context_field("shared.bytes", "shared_bytes")}
{context_field("fill", "shared_fill")}
  %fill8 = trunc i64 %fill to i8
{field("shared", "slot", SLOT["shared"], "ptr")}
  call void @llvm.memset.p0.i64(ptr %shared, i8 %fill8, i64 %shared.bytes, i1 false)
{context_field("reserved.at", "reserved_offset")}
{context_field("reserved.bytes", "reserved_bytes")}
  %reserved = getelementptr i8, ptr %shared, i64 %reserved.at
  call void @llvm.memset.p0.i64(ptr %reserved, i8 0, i64 %reserved.bytes, i1 false)
{field("observed", "slot", SLOT["observed_area"], "ptr")}
{context_field("initial", "observed_initial", "ptr")}
{context_field("observed.bytes", "observed_bytes")}
  call void @llvm.memcpy.p0.p0.i64(ptr %observed, ptr %initial, i64 %observed.bytes, i1 false)
{context_field("warps", "warps")}
{context_field("threads", "threads")}
{context_field("bytes", "warp_bytes")}
{context_field("points", "points")}
{field("records", "slot", SLOT["warp_records"], "ptr")}
  %point.bytes = mul i64 %points, {POINT_BYTES}
  %head = add i64 %point.bytes, {WARP_POINTS}
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %each ]
  %at = mul i64 %i, %bytes
  %warp = getelementptr i8, ptr %records, i64 %at
  call void @llvm.memset.p0.i64(ptr %warp, i8 0, i64 %head, i1 false)
  %first = mul i64 %i, 32
  %left = sub i64 %threads, %first
  %full = icmp uge i64 %left, 32
  %left32 = trunc i64 %left to i32
  %safe = and i32 %left32, 31
  %bit = shl i32 1, %safe
  %partial = sub i32 %bit, 1
  %live = select i1 %full, i32 -1, i32 %partial
  %index = trunc i64 %i to i32
{set_field("warp", WARP["status"], f"i32 {READY}", "w0")}
{set_field("warp", WARP["live"], "i32 %live", "w1")}
{set_field("warp", WARP["index"], "i32 %index", "w2")}
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %warps
  br i1 %more, label %each, label %done
done:
  ret void
}}
"""


def _print() -> str:
    """tw.print(context, slot, warp, lanes, formats, offsets, local, stride, local bytes): one record a lane.

    `offsets` are those of the argument bytes in local memory; outside of it there are none. A full buffer counts on,
    so that Python can tell how much was lost.
    """
    return f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
define void @tw.print(ptr %context, ptr %slot, ptr %warp, i32 %lanes, ptr %formats, ptr %offsets, ptr %local,
                      i64 %stride, i64 %local.bytes) noinline {{
entry:
{context_field("buffer", "print_buffer", "ptr")}
{context_field("room", "print_bytes")}
{field("block", "slot", SLOT["block"])}
{field("index", "warp", WARP["index"], "i32")}
  br label %next
next:
  %left = phi i32 [ %lanes, %entry ], [ %rest, %done ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %out, label %lane
lane:
  %l = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %less = sub i32 %left, 1
  %rest = and i32 %left, %less
{context_field("used", "print_used")}
  %after = add i64 %used, {PRINT_RECORD_BYTES}
{set_context("print_used", "i64 %after", "u")}
  %fits = icmp ule i64 %after, %room
  br i1 %fits, label %write, label %done
write:
  %record = getelementptr i8, ptr %buffer, i64 %used
  store i64 %block, ptr %record, align 8
  %w0 = mul i32 %index, 32
  %thread = add i32 %w0, %l
  %thread.wide = zext i32 %thread to i64
  %r1 = getelementptr i8, ptr %record, i64 8
  store i64 %thread.wide, ptr %r1, align 8
  %f.p = getelementptr i64, ptr %formats, i32 %l
  %f = load i64, ptr %f.p
  %r2 = getelementptr i8, ptr %record, i64 16
  store i64 %f, ptr %r2, align 8
  %o.p = getelementptr i64, ptr %offsets, i32 %l
  %o = load i64, ptr %o.p
  %inside = icmp ult i64 %o, %local.bytes
  %behind = sub i64 %local.bytes, %o
  %some = call i64 @llvm.umin.i64(i64 %behind, i64 {PRINT_ARGUMENT_BYTES})
  %count = select i1 %inside, i64 %some, i64 0
  %r3 = getelementptr i8, ptr %record, i64 24
  store i64 %count, ptr %r3, align 8
  %l.wide = zext i32 %l to i64
  %lane.at = mul i64 %l.wide, %stride
  %at = add i64 %lane.at, %o
  %safe = select i1 %inside, i64 %at, i64 0
  %from = getelementptr i8, ptr %local, i64 %safe
  %to = getelementptr i8, ptr %record, i64 32
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %count, i1 false)
  br label %done
done:
  br label %next
out:
  ret void
}}
"""
