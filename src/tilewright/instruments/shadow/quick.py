"""The quick test of a whole warp's access with a known pattern, as LLVM text: one comparison over all of its cells.

It ends in `ret`, or goes to the label `lanes` where it does not pass.
"""

from __future__ import annotations

from tilewright.instruments.shadow.cells import (
    CLOCK_SHIFT,
    LAUNCH,
    READABLE,
    SEVERAL_BLOCKS,
    SEVERAL_WARPS,
    SHARED_CELLS,
    SITE_MAX,
    SITE_SHIFT,
    THREAD_MAX,
    WARPS_MAX,
    WHO_MASK,
)
from tilewright.simt.events import GLOBAL_BASE


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


def _mine(v: _Cells, readers: dict[int, list[int]]) -> str:
    """`%mine`, what this access puts down, and `%who`, its low bits."""
    alone = [readers[cell][0] if len(readers[cell]) == 1 else 0 for cell in v.cells]
    several = [len(readers[cell]) > 1 for cell in v.cells]
    tiles = [WARPS_MAX * (_tile(readers[cell]) - 1) if len(readers[cell]) > 1 else 0 for cell in v.cells]
    kinds = "<" + ", ".join(f"i1 {'true' if s else 'false'}" for s in several) + ">"
    return (
        "  %w.thread = shl i64 %w64, 5\n"
        + v.splat("thread.all", "%w.thread")
        + f"  %threads = or {v.type} %thread.all, {v.constant(alone)}\n"
        + f"  %w.many = add i64 %w64, {THREAD_MAX}\n"
        + v.splat("many.one", "%w.many")
        + f"  %many.all = or {v.type} %many.one, {v.constant(tiles)}\n"
        + f"  %who = select <{v.count} x i1> {kinds}, {v.type} %many.all, {v.type} %threads\n"
        + "  %row.small = call i32 @llvm.umin.i32(i32 %row, i32 4095)\n"
        + "  %row.wide = zext i32 %row.small to i64\n"
        + f"  %site = shl i64 %row.wide, {SITE_SHIFT}\n"
        + f"  %time = shl i64 %clock, {CLOCK_SHIFT}\n"
        + "  %common = or i64 %time, %site\n"
        + v.splat("common.all", "%common")
        + f"  %mine = or {v.type} %common.all, %who\n"
    )


def _tile(lanes: list[int]) -> int:
    """The fewest of 2, 4, 8 ... neighbouring lanes that hold these, as a node of the tree above 32 leaves."""
    low, high = min(lanes) + 32, max(lanes) + 32
    return low >> (low ^ high).bit_length()


def shared_quick(cells: list[int], readers: dict[int, list[int]], cell_bytes: int, writes: bool) -> str:
    """Loads and stores of shared memory whose cells the warp knows all of, or that are the lanes' own."""
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
    return start + _shared_load(v, readers)


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


def _shared_load(v: _Cells, readers: dict[int, list[int]]) -> str:
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
        + _shared_readers(v, readers)
    )


def _shared_readers(v: _Cells, readers: dict[int, list[int]]) -> str:
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
        + f"  %q.many = and {v.type} %r.who, splat (i64 {WARPS_MAX - 1})\n"
        + f"  %r.many = icmp uge {v.type} %r.who, splat (i64 {THREAD_MAX})\n"
        + f"  %q = select <{v.count} x i1> %r.many, {v.type} %q.many, {v.type} %q.one\n"
        + v.splat("w.all", "%w64")
        + f"  %q.like = icmp eq {v.type} %q, %w.all\n"
        + f"  %r.few = xor <{v.count} x i1> %r.several, splat (i1 true)\n"
        + f"  %q.ours = and <{v.count} x i1> %q.like, %r.few\n"
        + _tiles_of_both(v, readers)
        + f"  %group = select <{v.count} x i1> %q.ours, {v.type} %tile, {v.type} splat (i64 {SEVERAL_WARPS})\n"
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


def _tiles_of_both(v: _Cells, readers: dict[int, list[int]]) -> str:
    """`%tile`: the fewest lanes that hold this access's and those of R where they are other ones of the same warp."""
    n, t = v.count, v.type
    ours = [_tile(readers[cell]) for cell in v.cells]
    zeros = [64 - node.bit_length() for node in ours]
    return (
        f"  %r.above = lshr {t} %r.who, splat (i64 5)\n"
        + f"  %r.tile = sub {t} %r.above, splat (i64 {THREAD_MAX // WARPS_MAX - 1})\n"
        + f"  %r.lane = and {t} %r.who, splat (i64 31)\n"
        + f"  %r.leaf = or {t} %r.lane, splat (i64 32)\n"
        + f"  %r.node = select <{n} x i1> %r.many, {t} %r.tile, {t} %r.leaf\n"
        + f"  %r.zeros = call {t} @llvm.ctlz.v{n}i64({t} %r.node, i1 false)\n"
        + f"  %r.deeper = call {t} @llvm.usub.sat.v{n}i64({t} {v.constant(zeros)}, {t} %r.zeros)\n"
        + f"  %o.deeper = call {t} @llvm.usub.sat.v{n}i64({t} %r.zeros, {t} {v.constant(zeros)})\n"
        + f"  %r.up = lshr {t} %r.node, %r.deeper\n"
        + f"  %o.up = lshr {t} {v.constant(ours)}, %o.deeper\n"
        + f"  %unlike = xor {t} %r.up, %o.up\n"
        + f"  %unlike.zeros = call {t} @llvm.ctlz.v{n}i64({t} %unlike, i1 false)\n"
        + f"  %above = sub {t} splat (i64 64), %unlike.zeros\n"
        + f"  %node = lshr {t} %r.up, %above\n"
        + f"  %node.at = shl {t} %node, splat (i64 5)\n"
        + f"  %node.many = add {t} %node.at, splat (i64 {THREAD_MAX - WARPS_MAX})\n"
        + f"  %tile = or {t} %node.many, %w.all\n"
    )


def global_quick(cells: list[int], readers: dict[int, list[int]], cell_bytes: int, writes: bool) -> str:
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
