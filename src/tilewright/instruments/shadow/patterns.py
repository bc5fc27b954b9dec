"""Handlers of accesses: a quick test for a whole warp where the pattern is known, else lane by lane.

The quick test passes when nothing can be wrong and what is put down does not depend on the order of the lanes: all
lanes run, every cell was written at a clock that the warp knows of, and no reader is overwritten. It costs a few vector
instructions; whatever does not pass goes to `lanes`.
"""

from __future__ import annotations

import hashlib

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
    SEVERAL_WARPS,
    SHARED_CELLS,
    SITE_MAX,
    SITE_SHIFT,
    STRONG,
    THREAD_MAX,
    WHO_MASK,
    WRITES,
)
from tilewright.instruments.shadow.clocks import warp_text
from tilewright.instruments.shadow.lanes import text_of
from tilewright.instruments.shadow.orders import ACCESS, RELEASES, SHARED
from tilewright.simt.events import FIELDS, GLOBAL_BASE, EventKind, Handler, Site, parameters

_LANES = 32
#: Cells of one quick test; wider accesses are judged lane by lane.
_CELLS_MAX = 128
#: Forms that are at least relaxed at some scope: two of them do not race. Source: PTX ISA, 8.3 (morally strong) and
#: 9.7.9.8: `.volatile` has the synchronisation semantics of `.relaxed` at system scope.
_STRONG = ("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio")


def how(site: Site) -> int:
    """What an access does, as bits."""
    parts = site.opcode.split(".")
    if site.access == "atomic":
        return READS | WRITES | STRONG
    strong = STRONG if any(part in _STRONG for part in parts) else 0
    return strong | (WRITES if site.access == "store" else READS)


def handler(site: Site, offsets: tuple[int, ...] | None, cell_bytes: int, *, orders: bool) -> Handler:
    """The handler of an access; with `orders` strong ones are told to `orders.Orders`."""
    values = site.access == "store"
    quick = _quick(site, offsets, cell_bytes) if offsets is not None else ""
    told = _told(site) if orders and how(site) & STRONG and site.space != "local" else ""
    facts = (site.space, how(site), site.bytes_per_lane, _element_bytes(site), offsets if quick else None, cell_bytes)
    name = hashlib.sha256(repr((facts, told)).encode()).hexdigest()[:16]
    symbol = f"tw.memory.{name}"
    listed = parameters(EventKind.ACCESS, pattern=bool(quick), values=values)
    given = "ptr %values" if values else "ptr null"
    body = quick + _each_lane(site, given, offsets if quick else None, cell_bytes, told)
    text = f"{text_of(site.space, cell_bytes)}\ndeclare i32 @llvm.cttz.i32(i32, i1)\n"
    return Handler(
        symbol, f"{text}define void @{symbol}({listed}) noinline {{\nentry:\n{warp_text()}{body}}}\n",
        bool(quick), values,
    )  # fmt: skip


def _element_bytes(site: Site) -> int:
    """Bytes of one element of a vector access."""
    count = next((int(part[1:]) for part in site.opcode.split(".") if part in ("v2", "v4", "v8")), 1)
    return max(1, site.bytes_per_lane // count)


def _each_lane(site: Site, values: str, offsets: tuple[int, ...] | None, cell_bytes: int, told: str) -> str:
    """Judge lane by lane; with offsets, label `lanes` is where the quick test fails."""
    spread = ""
    addresses = "%addresses"
    if offsets is not None:
        addresses = "%all"
        pattern = ", ".join(f"i64 {o}" for o in offsets)
        spread = f"""
lanes:
  %all = alloca <32 x i64>, align 64
  %base.one = insertelement <32 x i64> poison, i64 %base, i32 0
  %base.all = shufflevector <32 x i64> %base.one, <32 x i64> poison, <32 x i32> zeroinitializer
  %spread = add <32 x i64> %base.all, <{pattern}>
  store <32 x i64> %spread, ptr %all, align 64
"""
    last = "told.done" if told else "judge"
    fine = ", [ %rest, %fine ]" if _has_one_quick(site, cell_bytes) else ""
    facts = f"i32 {site.bytes_per_lane}, i32 {how(site)}, i32 {_element_bytes(site)}"
    return f"""{spread}
  %now = load i64, ptr %clock.p
{_one_facts(site, cell_bytes)}{_all_quick(site, cell_bytes, addresses)}  br label %first
first:
  br label %turn
turn:
  %left = phi i32 [ %mask, %first ], [ %rest, %{last} ]{fine}
  %none = icmp eq i32 %left, 0
  br i1 %none, label %leave, label %one
one:
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %less = sub i32 %left, 1
  %rest = and i32 %left, %less
  %a.p = getelementptr i64, ptr {addresses}, i32 %lane
  %a = load i64, ptr %a.p, align 8
{_one_quick(site, cell_bytes)}{told}
  call void @tw.memory.{site.space}(ptr %slot, ptr %launch, ptr %block, i32 %row, i32 %w, i64 %now, i32 %lane,
    i64 %a, {facts}, i32 %mask, ptr {addresses}, {values})
  br label %turn
leave:
  ret void
"""


def _has_one_quick(site: Site, cell_bytes: int) -> bool:
    """Whether one lane's access has a quick test: loads of one cell in global memory, the most frequent of all."""
    return site.space == "global" and how(site) == READS and site.bytes_per_lane == cell_bytes


def _all_quick(site: Site, cell_bytes: int, addresses: str) -> str:
    """All lanes at once: readable, read by several blocks already, and not written in this launch."""
    if not _has_one_quick(site, cell_bytes):
        return ""
    bits = 8 * cell_bytes
    ones = sum(READABLE << 8 * i for i in range(cell_bytes))
    true = "<32 x i1> splat (i1 true)"
    return f"""
  %v.whole = icmp eq i32 %mask, -1
  br i1 %v.whole, label %v.states, label %first
v.states:
  %v.all = load <32 x i64>, ptr {addresses}, align 64
  %v.offset = sub <32 x i64> %v.all, splat (i64 {GLOBAL_BASE})
  %v.state.p = getelementptr i8, ptr %o.states, <32 x i64> %v.offset
  %v.state = call <32 x i{bits}> @llvm.masked.gather.v32i{bits}.v32p0(
    <32 x ptr> align 1 %v.state.p, {true}, <32 x i{bits}> zeroinitializer)
  %v.bits = and <32 x i{bits}> %v.state, splat (i{bits} {ones})
  %v.fine = icmp eq <32 x i{bits}> %v.bits, splat (i{bits} {ones})
  %v.readable = call i1 @llvm.vector.reduce.and.v32i1(<32 x i1> %v.fine)
  br i1 %v.readable, label %v.readers, label %first
v.readers:
  %v.cell = lshr <32 x i64> %v.offset, splat (i64 {cell_bytes.bit_length() - 1})
  %v.r.p = getelementptr i64, ptr %o.reads, <32 x i64> %v.cell
  %v.r = call <32 x i64> @llvm.masked.gather.v32i64.v32p0(<32 x ptr> align 8 %v.r.p, {true}, <32 x i64> zeroinitializer)
  %v.several = icmp eq <32 x i64> %v.r, splat (i64 {SEVERAL_BLOCKS})
  %v.settled = call i1 @llvm.vector.reduce.and.v32i1(<32 x i1> %v.several)
  br i1 %v.settled, label %v.writers, label %first
v.writers:
  %v.w.p = getelementptr i64, ptr %o.writes, <32 x i64> %v.cell
  %v.w = call <32 x i64> @llvm.masked.gather.v32i64.v32p0(<32 x ptr> align 8 %v.w.p, {true}, <32 x i64> zeroinitializer)
  %v.none = icmp eq <32 x i64> %v.w, zeroinitializer
  %v.clean = call i1 @llvm.vector.reduce.and.v32i1(<32 x i1> %v.none)
  br i1 %v.clean, label %leave, label %first
"""


def _one_quick(site: Site, cell_bytes: int) -> str:
    """One lane's quick test: readable, not written in this launch, and put down in R by one exchange at most."""
    if not _has_one_quick(site, cell_bytes):
        return "  br label %judge\njudge:\n"
    bits = 8 * cell_bytes
    ones = sum(READABLE << 8 * i for i in range(cell_bytes))
    return f"""
  %o.offset = sub i64 %a, {GLOBAL_BASE}
  %o.state.p = getelementptr i8, ptr %o.states, i64 %o.offset
  %o.state = load i{bits}, ptr %o.state.p, align 1
  %o.bits = and i{bits} %o.state, {ones}
  %o.readable = icmp eq i{bits} %o.bits, {ones}
  br i1 %o.readable, label %o.reader, label %judge
o.reader:
  %o.cell = udiv i64 %o.offset, {cell_bytes}
  %o.r.p = getelementptr i64, ptr %o.reads, i64 %o.cell
  %o.w.p = getelementptr i64, ptr %o.writes, i64 %o.cell
  %o.r = load atomic i64, ptr %o.r.p monotonic, align 8
  %o.all = icmp eq i64 %o.r, {SEVERAL_BLOCKS}
  br i1 %o.all, label %o.writer, label %o.look
o.look:
  %o.lane64 = zext i32 %lane to i64
  %o.own = or i64 %o.mine, %o.lane64
  %o.unlike = xor i64 %o.r, %o.own
  %o.unlike.rest = and i64 %o.unlike, {~(SITE_MAX << SITE_SHIFT)}
  %o.same = icmp eq i64 %o.unlike.rest, 0
  br i1 %o.same, label %o.writer, label %o.change
o.change:
  %o.none = icmp eq i64 %o.r, 0
  %o.its = lshr i64 %o.r, {BLOCK_SHIFT}
  %o.far = icmp ne i64 %o.its, %o.number
  %o.either = or i1 %o.none, %o.far
  %o.simple = and i1 %o.either, %o.fits
  br i1 %o.simple, label %o.swap, label %judge
o.swap:
  %o.next = select i1 %o.none, i64 %o.own, i64 {SEVERAL_BLOCKS}
  %o.swapped = cmpxchg ptr %o.r.p, i64 %o.r, i64 %o.next seq_cst seq_cst
  %o.set = extractvalue {{ i64, i1 }} %o.swapped, 1
  br i1 %o.set, label %o.writer, label %judge
o.writer:
  %o.w = load atomic i64, ptr %o.w.p monotonic, align 8
  %o.clean = icmp eq i64 %o.w, 0
  br i1 %o.clean, label %fine, label %judge
fine:
  br label %turn
judge:
"""


def _one_facts(site: Site, cell_bytes: int) -> str:
    """What the quick tests of all lanes share."""
    if not _has_one_quick(site, cell_bytes):
        return ""
    return f"""
  %o.states.p = getelementptr i8, ptr %launch, i64 {LAUNCH["states"]}
  %o.states = load ptr, ptr %o.states.p
  %o.writes.p = getelementptr i8, ptr %launch, i64 {LAUNCH["writes"]}
  %o.writes = load ptr, ptr %o.writes.p
  %o.reads.p = getelementptr i8, ptr %launch, i64 {LAUNCH["reads"]}
  %o.reads = load ptr, ptr %o.reads.p
  %o.number.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.block"]}
  %o.number = load i64, ptr %o.number.p
  %o.clock.fits = icmp ule i64 %now, {CLOCK_MAX}
  %o.block.fits = icmp ule i64 %o.number, {BLOCK_MAX}
  %o.fits = and i1 %o.clock.fits, %o.block.fits
  %o.high = shl i64 %o.number, {BLOCK_SHIFT}
  %o.time = shl i64 %now, {CLOCK_SHIFT}
  %o.row32 = call i32 @llvm.umin.i32(i32 %row, i32 {SITE_MAX})
  %o.row64 = zext i32 %o.row32 to i64
  %o.site = shl i64 %o.row64, {SITE_SHIFT}
  %o.warp = shl i64 %w64, 5
  %o.m1 = or i64 %o.high, %o.time
  %o.m2 = or i64 %o.m1, %o.site
  %o.mine = or i64 %o.m2, %o.warp
"""


def _told(site: Site) -> str:
    """Tell `orders.Orders` of one lane's strong access; a load that is repeated while it waits is told once."""
    parts = site.opcode.split(".")
    bits = how(site) | (RELEASES if "release" in parts or "acq_rel" in parts else 0)
    bits |= SHARED if site.space == "shared" else 0
    repeats = how(site) & ~STRONG == READS
    mark = "%told.mark" if repeats else "0"
    return f"""
  %told.seen.at = shl i64 %w64, 3
  %told.seen.off = add i64 %told.seen.at, {SEEN}
  %told.seen.p = getelementptr i8, ptr %block, i64 %told.seen.off
  %told.last = load i64, ptr %told.seen.p
  %told.place = add i64 %a, 1  ; 0 is no place; shared memory has bit 48
  %told.mark = or i64 %told.place, {1 << 48 if site.space == "shared" else 0}
  %told.again = icmp eq i64 %told.last, {mark if repeats else "-1"}
  br i1 %told.again, label %told.done, label %told.new
told.new:
  store i64 {mark}, ptr %told.seen.p
  %told.number.p = getelementptr i8, ptr %slot, i64 {FIELDS["slot.block"]}
  %told.number = load i64, ptr %told.number.p
  %told.p = getelementptr i8, ptr %launch, i64 {LAUNCH["order"]}
  %told.function = load ptr, ptr %told.p
  %told = call i32 %told.function(i64 {ACCESS}, i64 %told.number, i64 %w64, i64 %a, i64 {bits}, i64 %now)
  br label %told.done
told.done:
"""


def _quick(site: Site, offsets: tuple[int, ...], cell_bytes: int) -> str:
    """The quick test of a pattern, or "" where there is none."""
    natural = site.bytes_per_lane
    if site.space == "local" or how(site) & STRONG or any(o % natural for o in offsets):
        return ""  # lanes that are off may have other offsets than their own; a misaligned access is a fault anyway
    readers: dict[int, list[int]] = {}
    for lane, offset in enumerate(offsets):
        for cell in range(offset // cell_bytes, -(-(offset + natural) // cell_bytes)):
            readers.setdefault(cell, []).append(lane)
    cells = sorted(readers)
    writes = site.access == "store"
    if len(cells) > _CELLS_MAX or (writes and any(len(lanes) > 1 for lanes in readers.values())):
        return ""
    text = _shared_quick if site.space == "shared" else _global_quick
    return text(cells, readers, cell_bytes, writes)


class _Cells:
    """LLVM text over the cells of a pattern, as one vector."""

    def __init__(self, cells: list[int]) -> None:
        self.cells = cells
        self.count = len(cells)
        self.contiguous = cells[-1] - cells[0] + 1 == len(cells)
        self.type = f"<{self.count} x i64>"

    def constant(self, items: list[int]) -> str:
        """A constant vector."""
        return "<" + ", ".join(f"i64 {item}" for item in items) + ">"

    def place(self, name: str, base: str) -> str:
        """`%NAME`: where the cells are, from the cell of the access's base on."""
        if self.contiguous:
            return f"  %{name} = getelementptr i64, ptr {base}, i64 {self.cells[0]}\n"
        return f"  %{name} = getelementptr i64, ptr {base}, {self.type} {self.constant(self.cells)}\n"

    def load(self, name: str, place: str) -> str:
        """`%NAME`: the cells."""
        n, t = self.count, self.type
        if self.contiguous:
            return f"  %{name} = load {self.type}, ptr %{place}, align 8\n"
        return (
            f"  %{name} = call {t} @llvm.masked.gather.v{n}i64.v{n}p0(<{n} x ptr> align 8 %{place}, "
            f"<{n} x i1> splat (i1 true), {t} zeroinitializer)\n"
        )

    def store(self, value: str, place: str) -> str:
        """Write the cells."""
        if self.contiguous:
            return f"  store {self.type} {value}, ptr %{place}, align 8\n"
        return (
            f"  call void @llvm.masked.scatter.v{self.count}i64.v{self.count}p0({self.type} {value}, "
            f"<{self.count} x ptr> align 8 %{place}, <{self.count} x i1> splat (i1 true))\n"
        )

    def splat(self, name: str, value: str) -> str:
        """`%NAME`: one i64 in every cell."""
        n, t = self.count, self.type
        return (
            f"  %{name}.one = insertelement {t} poison, i64 {value}, i32 0\n"
            f"  %{name} = shufflevector {t} %{name}.one, {t} poison, <{n} x i32> zeroinitializer\n"
        )

    def all(self, name: str, test: str) -> str:
        """`%NAME`: whether a vector of i1 holds everywhere."""
        return f"  %{name} = call i1 @llvm.vector.reduce.and.v{self.count}i1(<{self.count} x i1> {test})\n"

    def declarations(self) -> str:
        """What the text above calls."""
        n, t = self.count, self.type
        found = f"declare i1 @llvm.vector.reduce.and.v{n}i1(<{n} x i1>)\n"
        if not self.contiguous:
            found += f"declare {t} @llvm.masked.gather.v{n}i64.v{n}p0(<{n} x ptr>, <{n} x i1>, {t})\n"
            found += f"declare void @llvm.masked.scatter.v{n}i64.v{n}p0({t}, <{n} x ptr>, <{n} x i1>)\n"
        return found


def _mine(v: _Cells, readers: dict[int, list[int]]) -> str:
    """`%mine`, what this access puts down, and `%who`, its low bits."""
    alone = [readers[cell][0] if len(readers[cell]) == 1 else 0 for cell in v.cells]
    several = [len(readers[cell]) > 1 for cell in v.cells]
    kinds = "<" + ", ".join(f"i1 {'true' if s else 'false'}" for s in several) + ">"
    return (
        "  %w.thread = shl i64 %w64, 5\n"
        + v.splat("thread.all", "%w.thread")
        + f"  %threads = or {v.type} %thread.all, {v.constant(alone)}\n"
        + f"  %w.many = add i64 %w64, {THREAD_MAX}\n"
        + v.splat("many.all", "%w.many")
        + f"  %who = select <{v.count} x i1> {kinds}, {v.type} %many.all, {v.type} %threads\n"
        + "  %row.small = call i32 @llvm.umin.i32(i32 %row, i32 4095)\n"
        + "  %row.wide = zext i32 %row.small to i64\n"
        + f"  %site = shl i64 %row.wide, {SITE_SHIFT}\n"
        + f"  %time = shl i64 %clock, {CLOCK_SHIFT}\n"
        + "  %common = or i64 %time, %site\n"
        + v.splat("common.all", "%common")
        + f"  %mine = or {v.type} %common.all, %who\n"
    )


def _shared_quick(cells: list[int], readers: dict[int, list[int]], cell_bytes: int, writes: bool) -> str:
    v = _Cells(cells)
    start = f"""
  %full = icmp eq i32 %mask, -1
  br i1 %full, label %quick, label %lanes
quick:
  %clock = load i64, ptr %clock.p
  %limit.p = getelementptr i8, ptr %clock.p, i64 8
  %limit = load i64, ptr %limit.p
  %cell = sdiv i64 %base, {cell_bytes}
  %reads.p = getelementptr i8, ptr %launch, i64 {LAUNCH["shared_reads"]}
  %reads.at = load i64, ptr %reads.p
  %all.w = getelementptr i8, ptr %block, i64 {SHARED_CELLS}
  %all.r = getelementptr i8, ptr %block, i64 %reads.at
  %base.w = getelementptr i64, ptr %all.w, i64 %cell
  %base.r = getelementptr i64, ptr %all.r, i64 %cell
"""
    start += v.place("at.w", "%base.w") + v.place("at.r", "%base.r") + v.load("w.old", "at.w") + v.load("r.old", "at.r")
    start += v.splat("limits", "%limit") + _mine(v, readers)
    if writes:
        return start + _shared_store(v)
    return start + _shared_load(v)


def _shared_store(v: _Cells) -> str:
    """Every cell known, or last touched by the same thread; the write takes it."""
    own = ""
    for name in ("w", "r"):
        own += f"  %{name}.known = icmp ult {v.type} %{name}.old, %limits\n"
        own += f"  %{name}.who = and {v.type} %{name}.old, splat (i64 {WHO_MASK})\n"
        own += f"  %{name}.own = icmp eq {v.type} %{name}.who, %who\n"
        own += f"  %{name}.fine = or <{v.count} x i1> %{name}.known, %{name}.own\n"
    return (
        own
        + f"  %fine = and <{v.count} x i1> %w.fine, %r.fine\n"
        + v.all("good", "%fine")
        + "  br i1 %good, label %put, label %lanes\nput:\n"
        + v.store("%mine", "at.w")
        + "  ret void\n"
    )


def _shared_load(v: _Cells) -> str:
    """Every cell written before the last barrier; R is fresh, or settled, or joined with the other readers."""
    return (
        f"  %w.less = sub {v.type} %w.old, splat (i64 1)\n"
        + "  %limit.less = sub i64 %limit, 1\n"
        + v.splat("limits.less", "%limit.less")
        + f"  %w.fine = icmp ult {v.type} %w.less, %limits.less\n"
        + v.all("good", "%w.fine")
        + "  br i1 %good, label %readers, label %own\n"
        + "own:  ; or by the same thread\n"
        + f"  %w.who = and {v.type} %w.old, splat (i64 {WHO_MASK})\n"
        + f"  %w.same = icmp eq {v.type} %w.who, %who\n"
        + f"  %w.there = icmp ne {v.type} %w.old, zeroinitializer\n"
        + f"  %w.own = and <{v.count} x i1> %w.same, %w.there\n"
        + f"  %w.either = or <{v.count} x i1> %w.fine, %w.own\n"
        + v.all("good.own", "%w.either")
        + "  br i1 %good.own, label %readers, label %lanes\n"
        + "readers:\n"
        + _shared_readers(v)
    )


def _shared_readers(v: _Cells) -> str:
    """Put the read down in R, where that does not say it already."""
    return (
        f"  %r.fresh = icmp ult {v.type} %r.old, %limits\n"
        + v.all("fresh", "%r.fresh")
        + "  br i1 %fresh, label %put, label %settled\nput:\n"
        + v.store("%mine", "at.r")
        + "  ret void\nsettled:\n"
        + f"  %r.who = and {v.type} %r.old, splat (i64 {WHO_MASK})\n"
        + f"  %r.several = icmp eq {v.type} %r.who, splat (i64 {SEVERAL_WARPS})\n"
        + f"  %r.own = icmp eq {v.type} %r.who, %who\n"
        + v.splat("sites", "%site")
        + f"  %r.site = and {v.type} %r.old, splat (i64 {SITE_MAX << SITE_SHIFT})\n"
        + f"  %r.like = icmp eq {v.type} %r.site, %sites\n"
        + f"  %r.mixed = icmp eq {v.type} %r.site, splat (i64 {SITE_MAX << SITE_SHIFT})\n"
        + f"  %r.said = or <{v.count} x i1> %r.like, %r.mixed\n"
        + f"  %r.both = and <{v.count} x i1> %r.several, %r.said\n"
        + f"  %r.known = or <{v.count} x i1> %r.both, %r.own\n"
        + v.splat("times", "%time")
        + f"  %r.now = icmp uge {v.type} %r.old, %times\n"
        + f"  %r.settled = and <{v.count} x i1> %r.known, %r.now\n"
        + v.all("r.rest", "%r.settled")
        + "  br i1 %r.rest, label %done, label %join\ndone:\n  ret void\njoin:\n"
        + "  %alone = icmp eq i64 %time, %limit\n"
        + "  br i1 %alone, label %whole, label %lanes\n"
        + "whole:  ; all warps know the same of each other: what is not fresh is of this round\n"
        + f"  %q.one = lshr {v.type} %r.who, splat (i64 5)\n"
        + f"  %q.many = sub {v.type} %r.who, splat (i64 {THREAD_MAX})\n"
        + f"  %r.many = icmp uge {v.type} %r.who, splat (i64 {THREAD_MAX})\n"
        + f"  %q = select <{v.count} x i1> %r.many, {v.type} %q.many, {v.type} %q.one\n"
        + v.splat("w.all", "%w64")
        + f"  %q.ours = icmp eq {v.type} %q, %w.all\n"
        + f"  %group = select <{v.count} x i1> %q.ours, {v.type} %many.all, {v.type} splat (i64 {SEVERAL_WARPS})\n"
        + f"  %joined.who = select <{v.count} x i1> %r.own, {v.type} %who, {v.type} %group\n"
        + f"  %fresh.who = select <{v.count} x i1> %r.fresh, {v.type} %who, {v.type} %joined.who\n"
        + f"  %joined.known = or {v.type} %common.all, %fresh.who\n"
        + f"  %r.simple = or <{v.count} x i1> %r.fresh, %r.own\n"
        + f"  %r.clear = or <{v.count} x i1> %r.simple, %r.like\n"
        + f"  %joined.unknown = or {v.type} %joined.known, splat (i64 {SITE_MAX << SITE_SHIFT})\n"
        + f"  %joined = select <{v.count} x i1> %r.clear, {v.type} %joined.known, {v.type} %joined.unknown\n"
        + v.store("%joined", "at.r")
        + "  ret void\n"
    )


def _global_quick(cells: list[int], readers: dict[int, list[int]], cell_bytes: int, writes: bool) -> str:
    """Loads of bytes that may be read, of cells that several blocks read and nothing has written."""
    v = _Cells(cells)
    if writes or not v.contiguous:
        return ""
    size = v.count * cell_bytes
    bytes_type = f"<{size} x i8>"
    return (
        f"""
  %full = icmp eq i32 %mask, -1
  br i1 %full, label %quick, label %lanes
quick:
  %offset = sub i64 %base, {GLOBAL_BASE}
  %start = add i64 %offset, {cells[0] * cell_bytes}
  %states.p = getelementptr i8, ptr %launch, i64 {LAUNCH["states"]}
  %states = load ptr, ptr %states.p
  %states.at = getelementptr i8, ptr %states, i64 %start
  %state = load {bytes_type}, ptr %states.at, align 1
  %readable = and {bytes_type} %state, splat (i8 {READABLE})
  %bytes.fine = icmp ne {bytes_type} %readable, zeroinitializer
  %bytes.good = call i1 @llvm.vector.reduce.and.v{size}i1(<{size} x i1> %bytes.fine)
  br i1 %bytes.good, label %cells, label %lanes
cells:
  %cell = sdiv i64 %offset, {cell_bytes}
  %writes.p = getelementptr i8, ptr %launch, i64 {LAUNCH["writes"]}
  %all.w = load ptr, ptr %writes.p
  %reads.p = getelementptr i8, ptr %launch, i64 {LAUNCH["reads"]}
  %all.r = load ptr, ptr %reads.p
  %base.w = getelementptr i64, ptr %all.w, i64 %cell
  %base.r = getelementptr i64, ptr %all.r, i64 %cell
"""
        + v.place("at.w", "%base.w")
        + v.place("at.r", "%base.r")
        + v.load("r.old", "at.r")
        + f"  %r.settled = icmp eq {v.type} %r.old, splat (i64 {SEVERAL_BLOCKS})\n"
        + v.all("settled", "%r.settled")
        + "  br i1 %settled, label %written, label %lanes\nwritten:\n"
        + v.load("w.old", "at.w")
        + f"  %w.none = icmp eq {v.type} %w.old, zeroinitializer\n"
        + v.all("clean", "%w.none")
        + "  br i1 %clean, label %done, label %lanes\ndone:\n  ret void\n"
    )
