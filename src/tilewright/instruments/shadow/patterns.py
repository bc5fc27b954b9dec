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
    SITE_MAX,
    SITE_SHIFT,
    STRONG,
    WRITES,
)
from tilewright.instruments.shadow.clocks import warp_text
from tilewright.instruments.shadow.lanes import text_of
from tilewright.instruments.shadow.orders import ACCESS, RELEASES, SHARED
from tilewright.instruments.shadow.quick import global_quick, shared_quick
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
    text = shared_quick if site.space == "shared" else global_quick
    return text(cells, readers, cell_bytes, writes)
