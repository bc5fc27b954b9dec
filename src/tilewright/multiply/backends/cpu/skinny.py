"""Skinny products: few rows of C, each element of B used only a few times, so memory bandwidth is the limit.

B is not packed. If its rows are contiguous, some rows at a time are added to the sums; if its columns are, square
blocks are transposed in registers. The sums run along k in either case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilewright.ground.native.memo import bounded
from tilewright.multiply.backends.cpu.contexts import REGISTER_BYTES, KernelKey
from tilewright.multiply.backends.cpu.elements import vector, widen
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.backends.cpu.kernels import Kernel, compiled
from tilewright.multiply.backends.cpu.loops import batches, clear_sums, finish_rows, module
from tilewright.multiply.backends.cpu.microkernel.families import family_of
from tilewright.multiply.backends.cpu.packing import STEPS, emit_pack, packed_rows, transposed
from tilewright.multiply.problem.dtypes import element

#: Rows of C up to which memory, not arithmetic, is the bottleneck.
ROWS_MAX = 8
#: Rows of B read at the same time: an L2 prefetcher follows about 32 streams, and sums pass through L1 once for each
#: round of them (with 8 rows of C, 32 are 10 % quicker than 16 or 64, and 8 lose a fifth; measured).
#: Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, "Data Prefetching", streamer.
_STREAMS = 32
#: Distance of the prefetch of a row of B: 8 rows of C gain 13 % if B comes from memory (measured).
_AHEAD_BYTES = 512
#: Accumulators by vector bytes, and vectors of a row.
_ACCUMULATORS = {64: 24, 32: 12, 16: 12}
_VECTORS_MAX = 8

Along = Literal["rows", "columns"]


@dataclass(frozen=True, slots=True)
class SkinnyKey:
    """One skinny kernel."""

    key: KernelKey
    rows: int  #: Rows of C.
    along: Along  #: Whether B's rows or its columns are contiguous.


def skinny_text(skinny: SkinnyKey) -> str:
    """The LLVM module that defines `void kernel` (see `loops.SIGNATURE`) for a skinny key."""
    ir = Ir()
    key = skinny.key
    size = REGISTER_BYTES[key.register]
    emit_pack(ir, "pack_a", element(key.a), key.register, size, key.vector_bytes // size)
    code = _Skinny(ir, skinny)
    with batches(ir, key, code.declare):
        with ir.when(ir.compare("eq", "%continues", "0")):
            clear_sums(ir, key.register, code.family.zero)
        with ir.loop("0", "%k", str(STEPS)) as start:
            taken = ir.least(ir.sub("%k", start), str(STEPS))
            a = code.rows_of_a(start, taken)
            b = ir.at("%b", ir.mul(start, "%b_rs"))
            (code.add_rows if skinny.along == "rows" else code.add_columns)(a, b, taken)
        finish_rows(ir, key)
    return module(ir, key)


class _Skinny:
    """Emits the parts of one kernel."""

    def __init__(self, ir: Ir, skinny: SkinnyKey) -> None:
        self.ir = ir
        self.rows = skinny.rows
        self.type = skinny.key.register
        self.size = REGISTER_BYTES[self.type]
        self.width = skinny.key.vector_bytes // self.size
        self.full = vector(self.type, self.width)
        self.family = family_of(skinny.key)
        self.a, self.b = element(skinny.key.a), element(skinny.key.b)
        self.vectors = max(1, min(_VECTORS_MAX, _ACCUMULATORS[skinny.key.vector_bytes] // self.rows))

    def declare(self) -> None:
        """Sums of a block of columns (mem2reg makes them registers)."""
        for i in range(self.rows):
            for v in range(self.vectors):
                self.ir.line(f"%sum.{i}.{v} = alloca {self.full}, align 64")

    def rows_of_a(self, start: str, taken: str) -> list[str]:
        """Pointers to the rows of A from a step on, contiguous and of the register type, packed if necessary."""
        plain = self.a.memory == self.type
        first, pitch = packed_rows(self.ir, "a", ("%a_rs", "%a_cs", "%m"), (start, taken), plain, self.size)
        return [self.ir.at(first, self.ir.mul(pitch, str(i))) for i in range(self.rows)]

    def add_rows(self, a: list[str], b: str, taken: str) -> None:
        """Contiguous rows of B: as many at a time as the prefetchers follow, over the whole width."""
        ir = self.ir
        wide = self.vectors * self.width
        end = ir.mul(ir.op(f"sdiv i64 %n, {wide}"), str(wide))
        with ir.loop("0", taken, str(_STREAMS)) as first:
            last = ir.least(ir.add(first, str(_STREAMS)), taken)
            with ir.loop("0", end, str(wide)) as j:
                self._add(a, b, (first, last), j, [None] * self.vectors)
            with ir.loop(end, "%n", str(self.width)) as j:
                self._add(a, b, (first, last), j, [ir.lanes_below(self.width, ir.sub("%n", j))])

    def _add(self, a: list[str], b: str, steps: tuple[str, str], j: str, masks: list[str | None]) -> None:
        """Some steps for a block of columns from j on, one vector for each mask."""
        ir, width = self.ir, self.width
        places = [
            (f"%sum.{i}.{v}", ir.at(line, ir.mul(ir.add(j, str(v * width)), str(self.size))), mask)
            for i, line in enumerate(self._lines())
            for v, mask in enumerate(masks)
        ]
        for slot, where, mask in places:
            ir.store(self.full, ir.masked_load(self.type, width, where, mask), slot)
        with ir.loop(*steps) as p:
            row = ir.at(ir.at(b, ir.mul(p, "%b_rs")), ir.mul(j, str(self.b.bytes)))
            values = []
            for v, mask in enumerate(masks):
                if mask is None:
                    ahead = ir.at(row, str(v * width * self.b.bytes + _AHEAD_BYTES))
                    ir.invoke("llvm.prefetch.p0", "void", f"ptr {ahead}", "i32 0", "i32 3", "i32 1")
                value = ir.masked_load(self.b.memory, width, ir.at(row, str(v * width * self.b.bytes)), mask)
                values.append(widen(ir, self.b, value, self.type, width))
            for i, line in enumerate(a):
                spread = ir.splat(self.type, width, ir.load(self.type, ir.at(line, ir.mul(p, str(self.size)))))
                for v, value in enumerate(values):
                    self._step(f"%sum.{i}.{v}", spread, value)
        for slot, where, mask in places:
            value = ir.load(self.full, slot)
            ir.masked_store(self.type, width, value, where, mask)

    def _lines(self) -> list[str]:
        return [self.ir.at("%sums", self.ir.mul("%sums_rs", str(i))) for i in range(self.rows)]

    def _step(self, slot: str, a: str, b: str) -> None:
        """One multiply-add of a vector of columns."""
        old = self.ir.load(self.full, slot)
        self.ir.store(self.full, self.family.step(self.ir, self.type, self.width, old, a, b), slot)

    def add_columns(self, a: list[str], b: str, taken: str) -> None:
        """Contiguous columns of B: a vector of columns at a time, blocks transposed in registers."""
        ir, width = self.ir, self.width
        whole = ir.op(f"and i64 {taken}, -{width}")
        last = ir.sub("%n", "1")
        with ir.loop("0", "%n", str(width)) as j:
            present = ir.lanes_below(width, ir.sub("%n", j))
            # Lanes beyond the last column repeat it; they are not stored.
            lines = [ir.at(b, ir.mul(ir.least(ir.add(j, str(lane)), last), "%b_cs")) for lane in range(width)]
            places = [ir.at(line, ir.mul(j, str(self.size))) for line in self._lines()]
            for i, where in enumerate(places):
                ir.store(self.full, ir.masked_load(self.type, width, where, present), f"%sum.{i}.0")
            with ir.loop("0", whole, str(width)) as p:
                block = []
                for line in lines:
                    value = ir.load(vector(self.b.memory, width), ir.at(line, ir.mul(p, str(self.b.bytes))))
                    block.append(widen(ir, self.b, value, self.type, width))
                for u, value in enumerate(transposed(ir, block, self.type, width)):
                    self._column(a, ir.add(p, str(u)), value)
            with ir.loop(whole, taken) as p:
                value = "poison"
                for lane, line in enumerate(lines):
                    one = ir.load(self.b.memory, ir.at(line, ir.mul(p, str(self.b.bytes))))
                    wide = widen(ir, self.b, one, self.type, 1)
                    value = ir.op(f"insertelement {self.full} {value}, {self.type} {wide}, i64 {lane}")
                self._column(a, p, value)
            for i, where in enumerate(places):
                value = ir.load(self.full, f"%sum.{i}.0")
                ir.masked_store(self.type, width, value, where, present)

    def _column(self, a: list[str], p: str, value: str) -> None:
        """Step p for a vector of columns."""
        for i, row in enumerate(a):
            scalar = self.ir.load(self.type, self.ir.at(row, self.ir.mul(p, str(self.size))))
            self._step(f"%sum.{i}.0", self.ir.splat(self.type, self.width, scalar), value)


@bounded(256)
def skinny_kernel(skinny: SkinnyKey) -> Kernel:
    """The kernel of a skinny key: from disk, or compiled now."""
    return Kernel(compiled(repr(skinny), lambda: skinny_text(skinny)))
