"""Clocks of warps: how far each knows the others, kept by what happens at barriers.

A warp's clock grows when it comes to a barrier, and at `bar.warp.sync`. What warp q did at a clock below `known[w][q]`
is ordered before what warp w does now. Those that come to a barrier leave what they know there; the first that goes on
closes the barrier's round and hands the sum to all that waited, so a warp that has run ahead to the next round adds
nothing to this one. Behind a barrier of the whole block all clocks are the same again, so that a cell's one clock is
right for several readers.

Lanes of a warp are ordered by a barrier that they wait at, and by `bar.warp.sync` where each is named: where that is
not always all of them, each lane has clocks of the others, in the warp's own time.

Source: vector clocks, as in Flanagan and Freund, "FastTrack" (PLDI 2009), with warps for threads; PTX ISA, 8.9
(causality order), 9.7.13.1 (bar): a barrier orders the memory accesses of the threads that take part, and those of
threads that only arrive for the threads that wait; 9.7.13.2: bar.warp.sync orders those of the threads that take part.
`shfl.sync`, `vote.sync`, `match.sync` and `redux.sync` order nothing (CUDA C++ Programming Guide, warp vote, match,
reduce and shuffle functions: "These intrinsics do not imply a memory barrier"); racecheck sees it so too.
"""

from __future__ import annotations

from tilewright.instruments.shadow import orders as orders_of
from tilewright.instruments.shadow.cells import (
    BARRIER_BYTES,
    BARRIERS,
    BARRIERS_AT,
    CLOCK_SHIFT,
    CLOCKS,
    GONE,
    INBOX,
    KNOWN,
    LANES_AT,
    LANES_BYTES,
    LAUNCH,
    SEEN,
    SHARED_CELLS,
    WAITS,
    WARPS_MAX,
    WHOLE,
)
from tilewright.simt.events import FIELDS, EventKind, Handler, parameters

_V = f"<{WARPS_MAX} x i32>"
_LANES = f"<{', '.join(f'i32 {index}' for index in range(WARPS_MAX))}>"


def handler(kind: EventKind, *, orders: bool) -> Handler | None:
    """The handler of an event that orders accesses; None for one that does not.

    With `orders` those that order through memory are told to `orders.Orders` too.
    """
    texts = {EventKind.ARRIVE: _arrive, EventKind.RELEASE: _release, EventKind.SYNC: _sync, EventKind.EXIT: _exit}
    if orders:
        texts[EventKind.FENCE] = _fence
    if kind not in texts:
        return None
    symbol = f"tw.memory.{kind.value}"
    told = _told(_TOLD[kind]) if orders and kind in _TOLD else ""
    return Handler(symbol, texts[kind](f"define void @{symbol}({parameters(kind)})").replace("; told\n", told))


_TOLD = {EventKind.FENCE: orders_of.FENCE, EventKind.ARRIVE: orders_of.ARRIVE, EventKind.RELEASE: orders_of.RELEASE}


def _told(what: int) -> str:
    """Tell `orders.Orders` of an event of the warp `%w64` at `%clock`."""
    return f"""
  %told.number.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.block"]}
  %told.number = load i64, ptr %told.number.p
  %told.p = getelementptr i8, ptr %launch, i64 {LAUNCH["order"]}
  %told.function = load ptr, ptr %told.p
  %told.seen.at = shl i64 %w64, 3
  %told.seen.off = add i64 %told.seen.at, {SEEN}
  %told.seen.p = getelementptr i8, ptr %block, i64 %told.seen.off
  store i64 0, ptr %told.seen.p
  %told = call i32 %told.function(i64 {what}, i64 %told.number, i64 %w64, i64 0, i64 0, i64 %clock)
"""


def initial(lanes_at: int) -> bytes:
    """The clocks of a block that begins, up to where its cells do: every clock 1, and nothing of it known.

    `lanes_at` is the byte offset of the clocks of its lanes, 0 where there are none.
    """
    import numpy as np

    area = np.zeros(SHARED_CELLS, np.uint8)
    clocks = area[CLOCKS:KNOWN].view(np.uint64)
    clocks[0::2], clocks[1::2] = 1, 1 << CLOCK_SHIFT
    area[KNOWN:INBOX].view(np.uint32)[:] = 1
    area[WHOLE:BARRIERS_AT].view(np.uint64)[:] = 1
    area[LANES_AT:CLOCKS].view(np.uint64)[0] = lanes_at
    return area.tobytes()


def warp_text() -> str:
    """`%w`, the warp's index, with `%w64` and its clock's place `%clock.p`."""
    return f"""
  %w.p = getelementptr i8, ptr %warp, i64 {FIELDS["warp.index"]}
  %w = load i32, ptr %w.p
  %w64 = zext i32 %w to i64
  %clock.at = shl i64 %w64, 4
  %clock.off = add i64 %clock.at, {CLOCKS}
  %clock.p = getelementptr i8, ptr %block, i64 %clock.off
"""


def _whole() -> str:
    """`%whole.p`: where the clock is below which all lanes of this warp are ordered."""
    return f"""
  %whole.at = shl i64 %w64, 3
  %whole.off = add i64 %whole.at, {WHOLE}
  %whole.p = getelementptr i8, ptr %block, i64 %whole.off
"""


def _rows() -> str:
    """Places of this warp's rows: what it knows, what was left for it, where it waits."""
    return f"""
  %row.at = mul i64 %w64, {4 * WARPS_MAX}
  %known.off = add i64 %row.at, {KNOWN}
  %known.p = getelementptr i8, ptr %block, i64 %known.off
  %inbox.off = add i64 %row.at, {INBOX}
  %inbox.p = getelementptr i8, ptr %block, i64 %inbox.off
  %wait.at = shl i64 %w64, 3
  %wait.off = add i64 %wait.at, {WAITS}
  %wait.p = getelementptr i8, ptr %block, i64 %wait.off
  %round.p = getelementptr i8, ptr %wait.p, i64 4
"""


def _arrive(head: str) -> str:
    return f"""
declare {_V} @llvm.umax.v{WARPS_MAX}i32({_V}, {_V})
{head} {{
{warp_text()}{_rows()}{_whole()}
  %b.known = call i32 @llvm.umin.i32(i32 %barrier, i32 {BARRIERS - 1})  ; others are a fault, told right after this
  %b64 = zext i32 %b.known to i64
  %b.at = mul i64 %b64, {BARRIER_BYTES}
  %b.off = add i64 %b.at, {BARRIERS_AT}
  %b.p = getelementptr i8, ptr %block, i64 %b.off
  %joined.p = getelementptr i8, ptr %b.p, i64 64
  %joined = load {_V}, ptr %joined.p, align 4
  %known = load {_V}, ptr %known.p, align 4
  %clock = load i64, ptr %clock.p
  %clock1 = add i64 %clock, 1
  %own = trunc i64 %clock1 to i32
  %sum = call {_V} @llvm.umax.v{WARPS_MAX}i32({_V} %joined, {_V} %known)
  store {_V} %sum, ptr %joined.p, align 4
  %own.p = getelementptr i32, ptr %joined.p, i64 %w64
  store i32 %own, ptr %own.p
  store i64 %clock1, ptr %clock.p
  %round = load i32, ptr %b.p
  %stays = icmp ne i32 %waits, 0
  %b1 = add i32 %b.known, 1
  %wait = select i1 %stays, i32 %b1, i32 0
  store i32 %wait, ptr %wait.p
  store i32 %round, ptr %round.p
  %whole = load i64, ptr %whole.p  ; lanes that only arrive do not wait for each other
  %whole1 = select i1 %stays, i64 %clock1, i64 %whole
  store i64 %whole1, ptr %whole.p
; told
  ret void
}}
"""


def _release(head: str) -> str:
    return f"""
declare {_V} @llvm.umax.v{WARPS_MAX}i32({_V}, {_V})
declare i32 @llvm.vector.reduce.umin.v{WARPS_MAX}i32({_V})
declare i32 @llvm.vector.reduce.umax.v{WARPS_MAX}i32({_V})
declare i1 @llvm.vector.reduce.and.v{WARPS_MAX}i1(<{WARPS_MAX} x i1>)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
{head} {{
entry:
{warp_text()}{_rows()}
  %here.p = getelementptr i8, ptr %launch, i64 {LAUNCH["warps"]}
  %warps = load i64, ptr %here.p
  %here32 = trunc i64 %warps to i32
{_splat("count", "%here32")}
  %exist = icmp ult {_V} {_LANES}, %count
  %wait = load i32, ptr %wait.p
  %came = icmp ne i32 %wait, 0
  br i1 %came, label %look, label %leave
look:
  %b = sub i32 %wait, 1
  %b64 = zext i32 %b to i64
  %b.at = mul i64 %b64, {BARRIER_BYTES}
  %b.off = add i64 %b.at, {BARRIERS_AT}
  %b.p = getelementptr i8, ptr %block, i64 %b.off
  %joined.p = getelementptr i8, ptr %b.p, i64 64
  %round = load i32, ptr %round.p
  %now = load i32, ptr %b.p
  %first = icmp eq i32 %round, %now
  %came.all = load {_V}, ptr %joined.p, align 4
  %gone.p = getelementptr i8, ptr %block, i64 {GONE}
  %gone = load {_V}, ptr %gone.p, align 4
  %came.or.gone = call {_V} @llvm.umax.v{WARPS_MAX}i32({_V} %came.all, {_V} %gone)
  br i1 %first, label %close, label %take
close:
  %now1 = add i32 %now, 1
  store i32 %now1, ptr %b.p
  store {_V} zeroinitializer, ptr %joined.p, align 4
{_everyone()}
  br label %each
each:
  %q = phi i64 [ 0, %close ], [ %q1, %next ]
  %q.at = shl i64 %q, 3
  %q.off = add i64 %q.at, {WAITS}
  %q.p = getelementptr i8, ptr %block, i64 %q.off
  %q.wait = load i32, ptr %q.p
  %q.round.p = getelementptr i8, ptr %q.p, i64 4
  %q.round = load i32, ptr %q.round.p
  %same.wait = icmp eq i32 %q.wait, %wait
  %same.round = icmp eq i32 %q.round, %round
  %with = and i1 %same.wait, %same.round
  br i1 %with, label %hand, label %next
hand:
  %to.at = mul i64 %q, {4 * WARPS_MAX}
  %to.off = add i64 %to.at, {INBOX}
  %to.p = getelementptr i8, ptr %block, i64 %to.off
  store {_V} %joined, ptr %to.p, align 4
  br label %next
next:
  %q1 = add i64 %q, 1
  %more = icmp ult i64 %q1, %warps
  br i1 %more, label %each, label %take
take:
  store i32 0, ptr %wait.p
  %inbox = load {_V}, ptr %inbox.p, align 4
  %known = load {_V}, ptr %known.p, align 4
  %sum = call {_V} @llvm.umax.v{WARPS_MAX}i32({_V} %known, {_V} %inbox)
  store {_V} %sum, ptr %known.p, align 4
{_splat("w.all", "%w")}
  %other = icmp ne {_V} {_LANES}, %w.all
  %counts = and <{WARPS_MAX} x i1> %exist, %other
  %without = select <{WARPS_MAX} x i1> %counts, {_V} %sum, {_V} splat (i32 -1)
  %least = call i32 @llvm.vector.reduce.umin.v{WARPS_MAX}i32({_V} %without)
  %alone = icmp eq i32 %least, -1
  %clock.old = load i64, ptr %clock.p
  %least64 = zext i32 %least to i64
  %bound = select i1 %alone, i64 %clock.old, i64 %least64
  %clock = call i64 @llvm.umax.i64(i64 %clock.old, i64 %bound)
  store i64 %clock, ptr %clock.p
  %low = call i64 @llvm.umin.i64(i64 %bound, i64 %clock)
  %limit = shl i64 %low, {CLOCK_SHIFT}
  %limit.p = getelementptr i8, ptr %clock.p, i64 8
  store i64 %limit, ptr %limit.p
; told
  br label %leave
leave:
  ret void
}}
"""


def _splat(name: str, value: str) -> str:
    """`%NAME`: an i32 for every warp."""
    return (
        f"  %{name}.one = insertelement {_V} poison, i32 {value}, i32 0\n"
        f"  %{name} = shufflevector {_V} %{name}.one, {_V} poison, {_V} zeroinitializer\n"
    )


def _everyone() -> str:
    """`%joined`, what those know that go on; where no warp of the block is missing, all that anyone does."""
    pair = f"<{2 * WARPS_MAX} x i32>"
    even = ", ".join(f"i32 {2 * index}" for index in range(WARPS_MAX))
    odd = ", ".join(f"i32 {2 * index + 1}" for index in range(WARPS_MAX))
    return f"""
  %waits.p = getelementptr i8, ptr %block, i64 {WAITS}
  %waits = load {pair}, ptr %waits.p, align 4
  %their.wait = shufflevector {pair} %waits, {pair} poison, {_V} <{even}>
  %their.round = shufflevector {pair} %waits, {pair} poison, {_V} <{odd}>
{_splat("our.wait", "%wait")}{_splat("our.round", "%round")}
  %like.wait = icmp eq {_V} %their.wait, %our.wait
  %like.round = icmp eq {_V} %their.round, %our.round
  %like = and <{WARPS_MAX} x i1> %like.wait, %like.round
  %ended = icmp ne {_V} %gone, zeroinitializer
  %present = or <{WARPS_MAX} x i1> %like, %ended
  %none = xor <{WARPS_MAX} x i1> %exist, splat (i1 true)
  %settled = or <{WARPS_MAX} x i1> %present, %none
  %everyone = call i1 @llvm.vector.reduce.and.v{WARPS_MAX}i1(<{WARPS_MAX} x i1> %settled)
  %latest = call i32 @llvm.vector.reduce.umax.v{WARPS_MAX}i32({_V} %came.or.gone)
{_splat("latest.all", "%latest")}
  %joined = select i1 %everyone, {_V} %latest.all, {_V} %came.or.gone
"""


def _sync(head: str) -> str:
    """All lanes that any of these names with the same mask are ordered; those that are named elsewhere are TW404."""
    return f"""
declare i32 @llvm.vector.reduce.and.v{WARPS_MAX}i32({_V})
declare {_V} @llvm.umax.v{WARPS_MAX}i32({_V}, {_V})
declare i32 @llvm.cttz.i32(i32, i1)
{head} {{
entry:
{warp_text()}{_whole()}
  %clock = load i64, ptr %clock.p
  %clock1 = add i64 %clock, 1
  store i64 %clock1, ptr %clock.p
  %active = bitcast i32 %mask to <{WARPS_MAX} x i1>
  %named = select <{WARPS_MAX} x i1> %active, {_V} %members, {_V} splat (i32 -1)
  %common = call i32 @llvm.vector.reduce.and.v{WARPS_MAX}i32({_V} %named)
  %all = icmp eq i32 %common, -1
  br i1 %all, label %whole, label %parts
whole:
  store i64 %clock1, ptr %whole.p
  ret void
parts:
  %lanes.at.p = getelementptr i8, ptr %block, i64 {LANES_AT}
  %lanes.at = load i64, ptr %lanes.at.p
  %lanes.from = mul i64 %w64, {LANES_BYTES}
  %lanes.off = add i64 %lanes.at, %lanes.from
  %lanes.p = getelementptr i8, ptr %block, i64 %lanes.off
  %now = trunc i64 %clock1 to i32
{_splat("now.all", "%now")}
  br label %part
part:
  %left = phi i32 [ %mask, %parts ], [ %others, %done ]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %mine = extractelement {_V} %members, i32 %lane
{_splat("mine.all", "%mine")}
  %like = icmp eq {_V} %members, %mine.all
  %like.bits = bitcast <{WARPS_MAX} x i1> %like to i32
  %with = and i32 %like.bits, %left
  %group = or i32 %mine, %with
  %group.bits = bitcast i32 %group to <{WARPS_MAX} x i1>
  %without = xor i32 %with, -1
  %others = and i32 %left, %without
  br label %gather
gather:
  %g = phi i32 [ %group, %part ], [ %g.rest, %gather ]
  %sum = phi {_V} [ zeroinitializer, %part ], [ %sum1, %gather ]
  %g.lane = call i32 @llvm.cttz.i32(i32 %g, i1 true)
  %g.p = getelementptr {_V}, ptr %lanes.p, i32 %g.lane
  %g.knows = load {_V}, ptr %g.p, align 4
  %sum1 = call {_V} @llvm.umax.v{WARPS_MAX}i32({_V} %sum, {_V} %g.knows)
  %g.less = sub i32 %g, 1
  %g.rest = and i32 %g, %g.less
  %g.more = icmp ne i32 %g.rest, 0
  br i1 %g.more, label %gather, label %hand
hand:
  %joined = select <{WARPS_MAX} x i1> %group.bits, {_V} %now.all, {_V} %sum1
  br label %give
give:
  %h = phi i32 [ %group, %hand ], [ %h.rest, %give ]
  %h.lane = call i32 @llvm.cttz.i32(i32 %h, i1 true)
  %h.p = getelementptr {_V}, ptr %lanes.p, i32 %h.lane
  store {_V} %joined, ptr %h.p, align 4
  %h.less = sub i32 %h, 1
  %h.rest = and i32 %h, %h.less
  %h.more = icmp ne i32 %h.rest, 0
  br i1 %h.more, label %give, label %done
done:
  %more = icmp ne i32 %others, 0
  br i1 %more, label %part, label %leave
leave:
  ret void
}}
"""


def _fence(head: str) -> str:
    """A fence orders nothing by itself: lanes of a warp are not made to wait for each other."""
    return f"""
{head} {{
{warp_text()}
  %clock = load i64, ptr %clock.p
; told
  ret void
}}
"""


def _exit(head: str) -> str:
    """A warp that has ended comes to every barrier: the others are not made to wait for it, nor to know more of it."""
    return f"""
{head} {{
entry:
{warp_text()}
  %live.p = getelementptr i8, ptr %warp, i64 {FIELDS["warp.live"]}
  %live = load i32, ptr %live.p
  %over = icmp eq i32 %live, 0
  br i1 %over, label %end, label %leave
end:
  %clock = load i64, ptr %clock.p
  %clock1 = add i64 %clock, 1
  %own = trunc i64 %clock1 to i32
  %gone.at = shl i64 %w64, 2
  %gone.off = add i64 %gone.at, {GONE}
  %gone.p = getelementptr i8, ptr %block, i64 %gone.off
  store i32 %own, ptr %gone.p
  br label %leave
leave:
  ret void
}}
"""
