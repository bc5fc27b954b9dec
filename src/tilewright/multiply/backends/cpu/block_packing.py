"""Packing for tile registers: blocks of 16 rows (of A, or columns of B) by 64 bytes along k, any strides.

A row here is a row of A or a column of B. A's blocks keep rows of 64 bytes; B's keep groups of 4 bytes along k, each
for all 16 rows. Memory contiguous along k is in A's form already; memory contiguous along the rows takes one
interleaving to B's form. A transpose of 16 x 16 words turns one form into the other. What is beyond the extents is
zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.multiply.backends.cpu.elements import spread
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.backends.cpu.microkernel.amx import ROW_BYTES, ROWS, TILE_BYTES
from tilewright.multiply.backends.cpu.packing import transposed
from tilewright.multiply.problem.dtypes import Dtype

_GROUP_BYTES = 4
_WORDS = f"<{ROWS} x i32>"


def emit_pack_block(ir: Ir, symbol: str, source: Dtype, *, by_groups: bool) -> None:
    """`void symbol(src, rs, ks, rows, steps, dst)`: one block; strides in bytes, extents may exceed the block's."""
    with ir.function(symbol, "ptr %src, i64 %rs, i64 %ks, i64 %rows, i64 %steps, ptr %dst"):
        block = _Block(ir, source, by_groups)
        along = ir.compare("eq", "%ks", str(source.bytes))
        across = ir.op(f"and i1 {ir.compare('eq', '%rs', str(source.bytes))}, {ir.not_(along)}")
        neither = ir.not_(ir.op(f"or i1 {along}, {across}"))
        all_rows = ir.compare("sge", "%rows", str(ROWS))
        whole = ir.op(f"and i1 {all_rows}, {ir.compare('sge', '%steps', str(block.elements))}")
        part = ir.not_(whole)
        for kind, load in ((along, block.rows), (across, block.groups)):
            for condition, masked in ((whole, False), (part, True)):
                with ir.when(ir.op(f"and i1 {kind}, {condition}")):
                    load(masked=masked)
        with ir.when(neither):
            block.one_by_one()


@dataclass(frozen=True)
class _Block:
    """Emits the ways to fill one block."""

    ir: Ir
    source: Dtype
    by_groups: bool

    @property
    def elements(self) -> int:
        """Of one row."""
        return ROW_BYTES // self.source.bytes

    @property
    def group(self) -> int:
        """Elements along k that are multiplied and added at once."""
        return _GROUP_BYTES // self.source.bytes

    def rows(self, *, masked: bool) -> None:
        """Contiguous along k: 16 vectors of 64 bytes."""
        ir, lanes, type_ = self.ir, self.elements, self.source.memory
        inside = ir.lanes_below(lanes, "%steps") if masked else ""
        block = []
        for i in range(ROWS):
            where = ir.at("%src", ir.mul("%rs", str(i)))
            value = ir.masked_load(type_, lanes, where, self._mask("%rows", i, lanes, inside))
            block.append(ir.op(f"bitcast <{lanes} x {type_}> {value} to {_WORDS}"))
        self._store(transposed(ir, block, "i32", ROWS) if self.by_groups else block)

    def _mask(self, extent: str, index: int, lanes: int, inside: str) -> str | None:
        """The lanes that are `inside` in a row or step that exists; None where there is no edge."""
        if not inside:
            return None
        exists = self.ir.compare("sgt", extent, str(index))
        return self.ir.op(f"select i1 {exists}, <{lanes} x i1> {inside}, <{lanes} x i1> zeroinitializer")

    def groups(self, *, masked: bool) -> None:
        """Contiguous along the rows: for each group, vectors of 16 elements, interleaved."""
        ir = self.ir
        inside = ir.lanes_below(ROWS, "%rows") if masked else ""
        block = [self._interleaved(g * self.group, inside) for g in range(ROWS)]
        self._store(block if self.by_groups else transposed(ir, block, "i32", ROWS))

    def _interleaved(self, first: int, inside: str) -> str:
        """The words of one group: 16 elements from each of its steps along k."""
        ir, type_ = self.ir, self.source.memory
        parts = []
        for step in range(first, first + self.group):
            where = ir.at("%src", ir.mul("%ks", str(step)))
            parts.append(ir.masked_load(type_, ROWS, where, self._mask("%steps", step, ROWS, inside)))
        width = ROWS
        while len(parts) > 1:
            order = ", ".join(f"i32 {lane}" for lane in range(2 * width))
            full = f"<{width} x {type_}>"
            parts = [
                ir.op(f"shufflevector {full} {low}, {full} {high}, <{2 * width} x i32> <{order}>")
                for low, high in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        order = ", ".join(f"i32 {ROWS * i + row}" for row in range(ROWS) for i in range(self.group))
        full = f"<{width} x {type_}>"
        mixed = ir.op(f"shufflevector {full} {parts[0]}, {full} poison, <{width} x i32> <{order}>")
        return ir.op(f"bitcast {full} {mixed} to {_WORDS}")

    def _store(self, block: list[str]) -> None:
        for i, value in enumerate(block):
            self.ir.line(f"store {_WORDS} {value}, ptr {self.ir.at('%dst', str(i * ROW_BYTES))}, align 64")

    def one_by_one(self) -> None:
        """Any strides."""
        ir, size = self.ir, self.source.bytes
        for i in range(ROWS):
            ir.line(f"store {_WORDS} {spread('i32', 0, ROWS)}, ptr {ir.at('%dst', str(i * ROW_BYTES))}, align 64")
        rows, steps = ir.least("%rows", str(ROWS)), ir.least("%steps", str(self.elements))
        with ir.loop("0", rows) as row, ir.loop("0", steps) as step:
            value = ir.load(self.source.memory, ir.at(ir.at("%src", ir.mul(row, "%rs")), ir.mul(step, "%ks")))
            if self.by_groups:
                group = ir.op(f"and i64 {step}, -{self.group}")
                inside = ir.add(ir.mul(row, str(_GROUP_BYTES)), ir.mul(ir.sub(step, group), str(size)))
                offset = ir.add(ir.mul(group, str(ROW_BYTES // self.group)), inside)
            else:
                offset = ir.add(ir.mul(row, str(ROW_BYTES)), ir.mul(step, str(size)))
            ir.store(self.source.memory, value, ir.at("%dst", offset))


__all__ = ["TILE_BYTES", "emit_pack_block"]
