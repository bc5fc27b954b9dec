"""The quick tests of a whole warp's accesses, as LLVM text: one comparison a cell, eight cells at a time.

They pass when nothing can be wrong and what is put down does not depend on the order of the lanes. Those of shared
memory either judge all cells or leave all as they were.
"""

from __future__ import annotations

from tilewright.instruments.shadow.cells import (
    BLOCK_MAX,
    BLOCK_SHIFT,
    CLOCK_MAX,
    CLOCK_SHIFT,
    CLOCKS,
    LAUNCH,
    READABLE,
    SETTLED,
    SETTLED_MAX,
    SEVERAL_BLOCKS,
    SEVERAL_WARPS,
    SHARED_CELLS,
    SITE_MAX,
    SITE_SHIFT,
    THREAD_MAX,
    VERSION,
    WARPS_MAX,
    WHO_MASK,
)
from tilewright.instruments.shadow.tables import PLAIN_BYTES, ROW_BYTES, RUN
from tilewright.simt.events import GLOBAL_BASE

_V = f"<{RUN} x i64>"
_B = f"<{RUN} x i1>"
_SITES = SITE_MAX << SITE_SHIFT


def _splat(name: str, value: str) -> str:
    """`%NAME`: one i64 in every cell."""
    return (
        f"  %{name}.splat = insertelement {_V} poison, i64 {value}, i32 0\n"
        f"  %{name} = shufflevector {_V} %{name}.splat, {_V} poison, <{RUN} x i32> zeroinitializer\n"
    )


def _all(name: str, test: str) -> str:
    """`%NAME`: whether a vector of i1 holds everywhere."""
    return f"  %{name} = call i1 @llvm.vector.reduce.and.v{RUN}i1({_B} {test})\n"


def _shared_start(cell_bytes: int) -> str:
    """What the rows of one access of shared memory have in common."""
    return (
        f"""
  %w64 = zext i32 %w to i64
  %clock.at = shl i64 %w64, 4
  %clock.off = add i64 %clock.at, {CLOCKS}
  %clock.p = getelementptr i8, ptr %block, i64 %clock.off
  %clock = load i64, ptr %clock.p
  %limit.p = getelementptr i8, ptr %clock.p, i64 8
  %limit = load i64, ptr %limit.p
  %limit.less = sub i64 %limit, 1
  %time = shl i64 %clock, {CLOCK_SHIFT}
  %alone = icmp eq i64 %time, %limit
  %who.one = shl i64 %w64, 5
  %who.many = add i64 %w64, {THREAD_MAX}
  %row64 = zext i32 %row to i64
  %site = shl i64 %row64, {SITE_SHIFT}
  %cell = sdiv i64 %base, {cell_bytes}
  %reads.p = getelementptr i8, ptr %launch, i64 {LAUNCH["shared_reads"]}
  %reads.at = load i64, ptr %reads.p
  %all.w = getelementptr i8, ptr %block, i64 {SHARED_CELLS}
  %all.r = getelementptr i8, ptr %block, i64 %reads.at
  %base.w = getelementptr i64, ptr %all.w, i64 %cell
  %base.r = getelementptr i64, ptr %all.r, i64 %cell
"""
        + _splat("limits", "%limit")
        + _splat("limits.less", "%limit.less")
        + _splat("times", "%time")
        + _splat("sites", "%site")
        + _splat("warp.one", "%who.one")
        + _splat("warp.many", "%who.many")
        + _splat("warp", "%w64")
    )


def _row(p: str) -> str:
    """A row of a table: where its cells are, and `%P.unused`."""
    return f"""
  %{p}.p = getelementptr [{ROW_BYTES} x i8], ptr %rows, i64 %{p}.i
  %{p}.cell = load i64, ptr %{p}.p, align 1
  %{p}.w.p = getelementptr i64, ptr %base.w, i64 %{p}.cell
  %{p}.r.p = getelementptr i64, ptr %base.r, i64 %{p}.cell
  %{p}.used.p = getelementptr i8, ptr %{p}.p, i64 8
  %{p}.used = load {_B}, ptr %{p}.used.p, align 1
  %{p}.unused = xor {_B} %{p}.used, splat (i1 true)
"""


def _mine(p: str) -> str:
    """`%P.mine`, what an access puts down, `%P.who` and `%P.site`, its parts; `%P.many` where several lanes do."""
    return f"""
  %{p}.many.p = getelementptr i8, ptr %{p}.p, i64 12
  %{p}.many = load {_B}, ptr %{p}.many.p, align 1
  %{p}.low.p = getelementptr i8, ptr %{p}.p, i64 16
  %{p}.low32 = load <{RUN} x i32>, ptr %{p}.low.p, align 1
  %{p}.low = zext <{RUN} x i32> %{p}.low32 to {_V}
  %{p}.lane = and {_V} %{p}.low, splat (i64 {THREAD_MAX - 1})
  %{p}.group = select {_B} %{p}.many, {_V} %warp.many, {_V} %warp.one
  %{p}.who = or {_V} %{p}.group, %{p}.lane
  %{p}.access = and {_V} %{p}.low, splat (i64 {_SITES})
  %{p}.place = add {_V} %{p}.access, %sites
  %{p}.site = call {_V} @llvm.umin.v{RUN}i64({_V} %{p}.place, {_V} splat (i64 {_SITES}))
  %{p}.mine0 = or {_V} %times, %{p}.site
  %{p}.mine = or {_V} %{p}.mine0, %{p}.who
"""


def _put(p: str, value: str, place: str, old: str) -> str:
    """Write a row's used cells; a block's cells are its own, so that the others may be written as they are."""
    return f"""
  %{p}.new = select {_B} %{p}.used, {_V} {value}, {_V} {old}
  store {_V} %{p}.new, ptr {place}, align 8
"""


def shared_reads(cell_bytes: int) -> str:
    """`tw.memory.shared.reads`: every cell written before the last barrier, or by the same thread; R takes the read."""
    return (
        f"""
define internal i1 @tw.memory.shared.reads(ptr %launch, ptr %block, i32 %row, i32 %w, i64 %base, ptr %rows,
                                           i64 %count) noinline {{
entry:
{_shared_start(cell_bytes)}{_SETTLED}
look:
  %a.i = phi i64 [ 0, %entry ], [ %a.next, %on ]
  %stale = phi i1 [ false, %entry ], [ %stale.now, %on ]
  %unsettled = phi i1 [ false, %entry ], [ %unsettled.now, %on ]
{_row("a")}
  %w.old = load {_V}, ptr %a.w.p, align 8
  %w.less = sub {_V} %w.old, splat (i64 1)
  %w.known = icmp ult {_V} %w.less, %limits.less
  %w.fine = or {_B} %w.known, %a.unused
"""
        + _all("w.good", "%w.fine")
        + f"""
  br i1 %w.good, label %readers, label %own
own:  ; or by the same thread
{_mine("a")}
  %w.who = and {_V} %w.old, splat (i64 {WHO_MASK})
  %w.same = icmp eq {_V} %w.who, %a.who
  %w.there = icmp ne {_V} %w.old, zeroinitializer
  %w.single = xor {_B} %a.many, splat (i1 true)  ; several lanes' atomics are not one lane's
  %w.thread = and {_B} %w.same, %w.single
  %w.own = and {_B} %w.thread, %w.there
  %w.either = or {_B} %w.fine, %w.own
"""
        + _all("w.ours", "%w.either")
        + f"""
  br i1 %w.ours, label %readers, label %no
readers:
  %by.own = phi i1 [ false, %look ], [ true, %own ]
  %r.old = load {_V}, ptr %a.r.p, align 8
  %r.below = icmp ult {_V} %r.old, %limits
  %r.fresh = or {_B} %r.below, %a.unused
"""
        + _all("r.good", "%r.fresh")
        + f"""
  br i1 %r.good, label %on, label %noted
noted:
  %settled = call i2 @tw.memory.shared.noted({_V} %r.old, {_V} %times, {_V} %sites, {_V} %warp.one,
                                             {_V} %warp.many, ptr %a.p)
  %settled.any = icmp ne i2 %settled, 0
  %settled.all = icmp eq i2 %settled, -1
  %settled.not = xor i1 %settled.all, true
  %unsettled.its = or i1 %settled.not, %by.own
  %unsettled.here = or i1 %unsettled, %unsettled.its
  %judged = or i1 %settled.any, %alone
  br i1 %judged, label %on, label %no
on:
  %stale.now = phi i1 [ %stale, %readers ], [ true, %noted ]
  %unsettled.now = phi i1 [ true, %readers ], [ %unsettled.here, %noted ]
  %a.next = add i64 %a.i, 1
  %a.more = icmp ult i64 %a.next, %count
  br i1 %a.more, label %look, label %looked
looked:
  br i1 %unsettled.now, label %change, label %settle
settle:  ; the next warps that know as much find the same, while no cell changes
  %settle.same = icmp eq i64 %version.limit, %limit
  %settle.here = and i1 %settle.same, %alone
  br i1 %settle.here, label %remember, label %yes
remember:
  store i64 %kept.row, ptr %kept.p, align 8
  store i64 %base, ptr %kept.base.p, align 8
  store i64 %version, ptr %kept.version.p, align 8
  store i64 %limit, ptr %kept.limit.p, align 8
  br label %yes
change:
  %change.same = icmp eq i64 %version.limit, %limit
  %change.here = and i1 %change.same, %alone
  br i1 %change.here, label %changed, label %renew
renew:  ; warps that know more or less put down what a settled read may depend on
  %renewed = add i64 %version, 1
  %renewed.limit = select i1 %alone, i64 %limit, i64 0
  store i64 %renewed, ptr %version.p, align 8
  store i64 %renewed.limit, ptr %version.limit.p, align 8
  br label %changed
changed:
  br i1 %stale.now, label %join, label %put
put:
  %b.i = phi i64 [ 0, %changed ], [ %b.next, %put ]
{_row("b")}{_mine("b")}
  %b.old = load {_V}, ptr %b.r.p, align 8
{_put("b", "%b.mine", "%b.r.p", "%b.old")}
  %b.next = add i64 %b.i, 1
  %b.more = icmp ult i64 %b.next, %count
  br i1 %b.more, label %put, label %yes
{_joined()}
yes:
  ret i1 true
no:
  ret i1 false
}}
{_NOTED}"""
    )


#: Ends where this very read was found settled before by a warp that knew as much, and no cell has changed since.
_SETTLED = f"""
  %version.p = getelementptr i8, ptr %block, i64 {VERSION}
  %version = load i64, ptr %version.p, align 8
  %version.limit.p = getelementptr i8, ptr %block, i64 {VERSION + 8}
  %version.limit = load i64, ptr %version.limit.p, align 8
  %kept.index = and i64 %row64, {SETTLED_MAX - 1}
  %kept.at = shl i64 %kept.index, 5
  %kept.off = add i64 %kept.at, {SETTLED}
  %kept.p = getelementptr i8, ptr %block, i64 %kept.off
  %kept.base.p = getelementptr i8, ptr %kept.p, i64 8
  %kept.version.p = getelementptr i8, ptr %kept.p, i64 16
  %kept.limit.p = getelementptr i8, ptr %kept.p, i64 24
  %kept.row = add i64 %row64, 1  ; 0 is none
  %its.row = load i64, ptr %kept.p, align 8
  %its.base = load i64, ptr %kept.base.p, align 8
  %its.version = load i64, ptr %kept.version.p, align 8
  %its.limit = load i64, ptr %kept.limit.p, align 8
  %row.same = icmp eq i64 %its.row, %kept.row
  %base.same = icmp eq i64 %its.base, %base
  %version.same = icmp eq i64 %its.version, %version
  %limit.same = icmp eq i64 %its.limit, %limit
  %same1 = and i1 %row.same, %base.same
  %same2 = and i1 %version.same, %limit.same
  %same3 = and i1 %same1, %same2
  %same = and i1 %same3, %alone
  br i1 %same, label %yes, label %look
"""

#: Nothing found settled before holds any more.
CHANGED = f"""
  %changed.p = getelementptr i8, ptr %block, i64 {VERSION}
  %changed.old = load i64, ptr %changed.p, align 8
  %changed.new = add i64 %changed.old, 1
  store i64 %changed.new, ptr %changed.p, align 8
"""

#: Whether R says already what a read would put down, in all of a row's cells: 1 where the warp itself has read some of
#: them before, 3 where several warps have read all.
_NOTED = f"""
define internal i2 @tw.memory.shared.noted({_V} %r, {_V} %times, {_V} %sites, {_V} %warp.one, {_V} %warp.many,
                                           ptr %c.p) alwaysinline {{
  %c.used.p = getelementptr i8, ptr %c.p, i64 8
  %c.used = load {_B}, ptr %c.used.p, align 1
  %c.unused = xor {_B} %c.used, splat (i1 true)
{_mine("c")}
  %who = and {_V} %r, splat (i64 {WHO_MASK})
  %several = icmp eq {_V} %who, splat (i64 {SEVERAL_WARPS})
  %own = icmp eq {_V} %who, %c.who
  %site = and {_V} %r, splat (i64 {_SITES})
  %like = icmp eq {_V} %site, %c.site
  %mixed = icmp eq {_V} %site, splat (i64 {_SITES})
  %said = or {_B} %like, %mixed
  %both = and {_B} %several, %said
  %known = or {_B} %both, %own
  %now = icmp uge {_V} %r, %times
  %is = and {_B} %known, %now
  %fine = or {_B} %is, %c.unused
  %all = call i1 @llvm.vector.reduce.and.v{RUN}i1({_B} %fine)
  %others = or {_B} %both, %c.unused
  %others.all = call i1 @llvm.vector.reduce.and.v{RUN}i1({_B} %others)
  %result = select i1 %others.all, i2 -1, i2 1
  %answer = select i1 %all, i2 %result, i2 0
  ret i2 %answer
}}
"""


def _joined() -> str:
    """Label `join`: put the reads down in rows that others have read, where all warps know the same of each other."""
    return (
        f"""
join:
  %c.i = phi i64 [ 0, %changed ], [ %c.next, %join.on ]
{_row("c")}{_mine("c")}
  %c.old = load {_V}, ptr %c.r.p, align 8
  %c.said = call i2 @tw.memory.shared.noted({_V} %c.old, {_V} %times, {_V} %sites, {_V} %warp.one, {_V} %warp.many,
                                            ptr %c.p)
  %c.noted = icmp ne i2 %c.said, 0
  br i1 %c.noted, label %join.on, label %whole
whole:  ; what is not fresh is of this round
  %c.fresh = icmp ult {_V} %c.old, %limits
  %c.its = and {_V} %c.old, splat (i64 {WHO_MASK})
  %c.own = icmp eq {_V} %c.its, %c.who
  %q.one = lshr {_V} %c.its, splat (i64 5)
  %q.many = and {_V} %c.its, splat (i64 {WARPS_MAX - 1})
  %c.tiled = icmp uge {_V} %c.its, splat (i64 {THREAD_MAX})
  %q = select {_B} %c.tiled, {_V} %q.many, {_V} %q.one
  %q.like = icmp eq {_V} %q, %warp
  %few = icmp ne {_V} %c.its, splat (i64 {SEVERAL_WARPS})
  %q.ours = and {_B} %q.like, %few
  ; the fewest lanes that hold theirs and ours, where both are of this warp: as `tw.memory.both`
{_node("i", "%c.its")}{_node("o", "%c.who")}
  %i.deeper = call {_V} @llvm.usub.sat.v{RUN}i64({_V} %o.zeros, {_V} %i.zeros)
  %o.deeper = call {_V} @llvm.usub.sat.v{RUN}i64({_V} %i.zeros, {_V} %o.zeros)
  %i.up = lshr {_V} %i.node, %i.deeper
  %o.up = lshr {_V} %o.node, %o.deeper
  %unlike = xor {_V} %i.up, %o.up
  %unlike.zeros = call {_V} @llvm.ctlz.v{RUN}i64({_V} %unlike, i1 false)
  %above = sub {_V} splat (i64 64), %unlike.zeros
  %node = lshr {_V} %i.up, %above
  %node.at = shl {_V} %node, splat (i64 5)
  %node.many = add {_V} %node.at, splat (i64 {THREAD_MAX - WARPS_MAX})
  %tile = or {_V} %node.many, %warp
  %both = select {_B} %q.ours, {_V} %tile, {_V} splat (i64 {SEVERAL_WARPS})
  %alike = or {_B} %c.fresh, %c.own
  %joined.who = select {_B} %alike, {_V} %c.who, {_V} %both
  %c.its.site = and {_V} %c.old, splat (i64 {_SITES})
  %c.like = icmp eq {_V} %c.its.site, %c.site
  %c.single = xor {_B} %c.many, splat (i1 true)
  %c.again = and {_B} %c.own, %c.single
  %clear0 = or {_B} %c.fresh, %c.again
  %clear = or {_B} %clear0, %c.like
  %joined.site = select {_B} %clear, {_V} %c.site, {_V} splat (i64 {_SITES})
  %joined0 = or {_V} %times, %joined.site
  %joined = or {_V} %joined0, %joined.who
"""
        + _put("c", "%joined", "%c.r.p", "%c.old")
        + """
  br label %join.on
join.on:
  %c.next = add i64 %c.i, 1
  %c.more = icmp ult i64 %c.next, %count
  br i1 %c.more, label %join, label %yes
"""
    )


def _node(p: str, who: str) -> str:
    """`%P.node`: lanes of a warp as a node of the tree above 32 leaves, and its leading `%P.zeros`."""
    return f"""
  %{p}.above = lshr {_V} {who}, splat (i64 5)
  %{p}.tile = sub {_V} %{p}.above, splat (i64 {THREAD_MAX // WARPS_MAX - 1})
  %{p}.lane = and {_V} {who}, splat (i64 {WARPS_MAX - 1})
  %{p}.leaf = or {_V} %{p}.lane, splat (i64 {WARPS_MAX})
  %{p}.many = icmp uge {_V} {who}, splat (i64 {THREAD_MAX})
  %{p}.node = select {_B} %{p}.many, {_V} %{p}.tile, {_V} %{p}.leaf
  %{p}.zeros = call {_V} @llvm.ctlz.v{RUN}i64({_V} %{p}.node, i1 false)
"""


def shared_writes(cell_bytes: int) -> str:
    """`tw.memory.shared.writes`: every cell known, or last touched by the same thread; the write takes it."""
    own = "".join(
        f"""
  %{name}.old = load {_V}, ptr %a.{name}.p, align 8
  %{name}.known = icmp ult {_V} %{name}.old, %limits
  %{name}.who = and {_V} %{name}.old, splat (i64 {WHO_MASK})
  %{name}.own = icmp eq {_V} %{name}.who, %a.who
  %{name}.fine = or {_B} %{name}.known, %{name}.own
"""
        for name in ("w", "r")
    )
    return f"""
define internal i1 @tw.memory.shared.writes(ptr %launch, ptr %block, i32 %row, i32 %w, i64 %base, ptr %rows,
                                            i64 %count) noinline {{
entry:
{_shared_start(cell_bytes)}
  br label %look
look:
  %a.i = phi i64 [ 0, %entry ], [ %a.next, %on ]
{_row("a")}{_mine("a")}{own}
  %both = and {_B} %w.fine, %r.fine
  %fine = or {_B} %both, %a.unused
{_all("good", "%fine")}
  br i1 %good, label %on, label %no
on:
  %a.next = add i64 %a.i, 1
  %a.more = icmp ult i64 %a.next, %count
  br i1 %a.more, label %look, label %taken
taken:
{CHANGED}
  br label %put
put:
  %b.i = phi i64 [ 0, %taken ], [ %b.next, %put ]
{_row("b")}{_mine("b")}
  %b.old = load {_V}, ptr %b.w.p, align 8
{_put("b", "%b.mine", "%b.w.p", "%b.old")}
  %b.next = add i64 %b.i, 1
  %b.more = icmp ult i64 %b.next, %count
  br i1 %b.more, label %put, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


def global_reads(cell_bytes: int) -> str:
    """`tw.memory.global.reads`: bytes that may be read, of cells that other blocks read and nothing has written.

    A cell that another block has read becomes one that several have; nothing else follows that, so it may simply be
    stored, before W is looked at.
    """
    ones = sum(READABLE << 8 * i for i in range(cell_bytes))
    states = f"<{RUN} x i{8 * cell_bytes}>"
    start = "".join(
        f"  %{name}.p = getelementptr i8, ptr %launch, i64 {LAUNCH[name]}\n  %{name} = load ptr, ptr %{name}.p\n"
        for name in ("states", "writes", "reads")
    )

    def row(p: str) -> str:
        return f"""
  %{p}.p = getelementptr [{PLAIN_BYTES} x i8], ptr %rows, i64 %{p}.i
  %{p}.off = load i64, ptr %{p}.p, align 1
  %{p}.cell = add i64 %{p}.off, %start
  %{p}.used.p = getelementptr i8, ptr %{p}.p, i64 8
  %{p}.used = load {_B}, ptr %{p}.used.p, align 1
  %{p}.unused = xor {_B} %{p}.used, splat (i1 true)
"""

    return f"""
define internal i1 @tw.memory.global.reads(ptr %launch, i64 %number, i64 %clock, i64 %start, ptr %rows,
                                           i64 %count) noinline {{
entry:
{start}{_splat("numbers", "%number")}
  %clock.fits = icmp ule i64 %clock, {CLOCK_MAX}
  %block.fits = icmp ule i64 %number, {BLOCK_MAX}
  %fits = and i1 %clock.fits, %block.fits
  br label %look
look:
  %a.i = phi i64 [ 0, %entry ], [ %a.next, %on ]
  %stored = phi i1 [ false, %entry ], [ %stored.now, %on ]
{row("a")}
  %a.byte = mul i64 %a.cell, {cell_bytes}
  %state.p = getelementptr i8, ptr %states, i64 %a.byte
  %state = load {states}, ptr %state.p, align 1
  %bits = and {states} %state, splat (i{8 * cell_bytes} {ones})
  %readable0 = icmp eq {states} %bits, splat (i{8 * cell_bytes} {ones})
  %readable = or {_B} %readable0, %a.unused
{_all("readable.all", "%readable")}
  br i1 %readable.all, label %readers, label %no
readers:
  %r.p = getelementptr i64, ptr %reads, i64 %a.cell
  %r = load {_V}, ptr %r.p, align 8
  %several0 = icmp eq {_V} %r, splat (i64 {SEVERAL_BLOCKS})
  %several = or {_B} %several0, %a.unused
{_all("several.all", "%several")}
  br i1 %several.all, label %on, label %others
others:
  %its = lshr {_V} %r, splat (i64 {BLOCK_SHIFT})
  %other = icmp ne {_V} %its, %numbers
  %some = icmp ne {_V} %r, zeroinitializer
  %far0 = and {_B} %other, %some
  %far = or {_B} %far0, %several
{_all("far.all", "%far")}
  %simple = and i1 %far.all, %fits
  br i1 %simple, label %spread, label %no
spread:
  call void @llvm.masked.store.v{RUN}i64.p0({_V} splat (i64 {SEVERAL_BLOCKS}), ptr align 8 %r.p, {_B} %a.used)
  br label %on
on:
  %stored.now = phi i1 [ %stored, %readers ], [ true, %spread ]
  %a.next = add i64 %a.i, 1
  %a.more = icmp ult i64 %a.next, %count
  br i1 %a.more, label %look, label %looked
looked:
  br i1 %stored.now, label %wait, label %written
wait:
  fence seq_cst
  br label %written
written:
  br label %w.look
w.look:
  %b.i = phi i64 [ 0, %written ], [ %b.next, %w.on ]
{row("b")}
  %w.p = getelementptr i64, ptr %writes, i64 %b.cell
  %w = load {_V}, ptr %w.p, align 8
  %none0 = icmp eq {_V} %w, zeroinitializer
  %none = or {_B} %none0, %b.unused
{_all("none.all", "%none")}
  br i1 %none.all, label %w.on, label %no
w.on:
  %b.next = add i64 %b.i, 1
  %b.more = icmp ult i64 %b.next, %count
  br i1 %b.more, label %w.look, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


def global_runs(cell_bytes: int) -> str:
    """`tw.memory.global.runs`: the same for addresses that are known now only; each eight lanes must lie in a row."""
    steps = ", ".join(f"i64 {i}" for i in range(RUN))
    groups = range(32 // RUN)
    looks = "".join(
        f"""
  %p{g} = getelementptr i64, ptr %addresses, i64 {RUN * g}
  %v{g} = load {_V}, ptr %p{g}, align 8
  %first{g} = extractelement {_V} %v{g}, i32 0
{_splat(f"start{g}", f"%first{g}")}
  %wanted{g} = add {_V} %start{g}, %steps
  %is{g} = icmp eq {_V} %v{g}, %wanted{g}
{_all(f"row{g}", f"%is{g}")}
"""
        for g in groups
    )
    together = "".join(
        f"  %rows{g} = and i1 {'true' if g == 0 else f'%rows{g - 1}'}, %row{g}\n"
        f"  %off{g} = sub i64 %first{g}, {GLOBAL_BASE}\n  %cell{g} = sdiv i64 %off{g}, {cell_bytes}\n"
        for g in groups
    )
    puts = "".join(
        f"""
  %at{g} = add i64 %cell{g}, %ahead
  %n{g} = add i64 %n, {g}
  %t{g} = getelementptr [{PLAIN_BYTES} x i8], ptr %table, i64 %n{g}
  store i64 %at{g}, ptr %t{g}, align 8
  %u{g} = getelementptr i8, ptr %t{g}, i64 8
  store i64 {(1 << RUN) - 1}, ptr %u{g}, align 8
"""
        for g in groups
    )
    return f"""
define internal i1 @tw.memory.global.runs(ptr %launch, i64 %number, i64 %clock, ptr %addresses, i32 %bytes) noinline {{
entry:
  %table = alloca [{32 * len(groups) * PLAIN_BYTES} x i8], align 16
  %bytes64 = zext i32 %bytes to i64
{_splat("sizes", "%bytes64")}
  %steps = mul {_V} %sizes, <{steps}>
  %cells = udiv i64 %bytes64, {cell_bytes}
{looks}{together}
  br i1 %rows{groups[-1]}, label %each, label %no
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %each ]
  %ahead = mul i64 %i, {RUN}
  %n = mul i64 %i, {len(groups)}
{puts}
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %cells
  br i1 %more, label %each, label %judge
judge:
  %count = mul i64 %cells, {len(groups)}
  %good = call i1 @tw.memory.global.reads(ptr %launch, i64 %number, i64 %clock, i64 0, ptr %table, i64 %count)
  ret i1 %good
no:
  ret i1 false
}}
"""
