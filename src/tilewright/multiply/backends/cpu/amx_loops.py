"""The loops around AMX tiles, and the module of a whole kernel.

    for k block (at most kc, evenly cut): for n block (nc): pack B into strips of 32 columns
        for 32 rows of A: pack them: for 32 columns: the tile

B's strips are in L2 and A's strip, packed just before it is used, in L1. Both are always packed: a tile register loads
16 rows that start on cache lines six times as fast as rows that do not, and NumPy's arrays seldom do. C is written in
the order of its rows, which is what the processor prefetches.

A whole tile is stored directly in C. A tile at the edge, and sums that the last k block converts, go through 4 KiB of
stack.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.multiply.backends.cpu.block_packing import emit_pack_block
from tilewright.multiply.backends.cpu.contexts import KernelKey, Tile, tile_of
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.backends.cpu.loops import batches, finish_rows, module
from tilewright.multiply.backends.cpu.microkernel import amx
from tilewright.multiply.backends.cpu.microkernel.amx import ROW_BYTES, ROWS, SIDE, STEP_BYTES, TILE_BYTES, AmxTile
from tilewright.multiply.problem.dtypes import element

#: Bytes from row to row of a tile on the stack.
_PITCH = 4 * SIDE


def amx_kernel_text(key: KernelKey) -> str:
    """The LLVM module that defines `void kernel` (see `loops.SIGNATURE`) for a key of the family `amx`.

    As :func:`tilewright.multiply.backends.cpu.loops.kernel_text`, but sums are kept in the scratch only if there is
    more than one k block.
    """
    ir = Ir()
    a, b = element(key.a), element(key.b)
    emit_pack_block(ir, "pack_a", a, by_groups=False)
    emit_pack_block(ir, "pack_b", b, by_groups=True)
    _emit_copy(ir)
    stack = f"%tile = alloca [{4 * TILE_BYTES} x i8], align 64"
    with batches(ir, key, lambda: ir.line(stack), converts=False):
        amx.configure(ir)
        converts = ir.compare("eq", "%in_place", "0") if key.finish is None else "true"
        tile, code = tile_of(key), AmxTile(ir, amx.multiplier(a, b))
        _Loops(ir, key, tile, ROW_BYTES // a.bytes, code, converts).k_blocks()
        amx.release(ir)
    return f"{amx.configuration()}\n{module(ir, key)}"


def buffer_bytes(tile: Tile, element_bytes: int, columns: int, k: int) -> dict[str, int]:
    """Bytes that one thread needs to pack A and B for parts of so many columns."""
    step = ROW_BYTES // element_bytes
    strip = min(-(-k // step), tile.kc // step) * STEP_BYTES
    return {"a": strip, "b": -(-min(tile.nc, columns) // SIDE) * strip}


def _emit_copy(ir: Ir) -> None:
    """`void copy(src, src_pitch, dst, dst_pitch, rows, columns)`: part of a tile of 32-bit sums."""
    with ir.function("copy", "ptr %src, i64 %sp, ptr %dst, i64 %dp, i64 %rows, i64 %columns"):
        masks = [ir.lanes_below(ROWS, "%columns"), ir.lanes_below(ROWS, ir.sub("%columns", str(ROWS)))]
        with ir.loop("0", "%rows") as row:
            src, dst = ir.at("%src", ir.mul(row, "%sp")), ir.at("%dst", ir.mul(row, "%dp"))
            for j, mask in enumerate(masks):
                value = ir.masked_load("i32", ROWS, ir.at(src, str(64 * j)), mask)
                ir.masked_store("i32", ROWS, value, ir.at(dst, str(64 * j)), mask)


@dataclass(frozen=True)
class _Block:
    """One k block and one n block: where they start, their extents, and whether the k block starts or ends the sums."""

    k: str
    taken: str
    steps: str
    column: str
    columns: str
    first: str
    last: str


@dataclass(frozen=True)
class _Loops:
    """Emits the loops of one matrix."""

    ir: Ir
    key: KernelKey
    tile: Tile
    step: int  #: Elements along k of a step.
    code: AmxTile
    converts: str  #: i1: whether C needs a conversion of the sums.

    def k_blocks(self) -> None:
        """The loop over k blocks; if k is 0, one block without steps stores zeros."""
        ir, kc, step = self.ir, self.tile.kc, self.step
        blocks = ir.op(f"sdiv i64 {ir.add('%k', str(kc - 1))}, {kc}")
        blocks = ir.invoke("llvm.smax.i64", "i64", f"i64 {blocks}", "i64 1")
        share = ir.op(f"sdiv i64 {ir.sub(ir.add('%k', blocks), '1')}, {blocks}")
        even = ir.op(f"and i64 {ir.add(share, str(step - 1))}, -{step}")
        fresh = ir.compare("eq", "%continues", "0")
        with ir.loop("0", blocks) as index:
            k = ir.mul(index, even)
            taken = ir.least(ir.sub("%k", k), even)
            steps = ir.op(f"sdiv i64 {ir.add(taken, str(step - 1))}, {step}")
            first = ir.op(f"and i1 {ir.compare('eq', index, '0')}, {fresh}")
            last = ir.compare("eq", index, ir.sub(blocks, "1"))
            with ir.loop("0", "%n", str(self.tile.nc)) as column:
                columns = ir.least(ir.sub("%n", column), str(self.tile.nc))
                self._block(_Block(k, taken, steps, column, columns, first, last))

    def _block(self, block: _Block) -> None:
        ir = self.ir
        strip_bytes = ir.mul(block.steps, str(STEP_BYTES))
        b = ir.at(ir.at("%b", ir.mul(block.k, "%b_rs")), ir.mul(block.column, "%b_cs"))
        with ir.loop("0", block.taken, str(self.step)) as k, ir.loop("0", block.columns, str(SIDE)) as j:
            strip = ir.at("%b_pack", ir.mul(ir.op(f"sdiv i64 {j}, {SIDE}"), strip_bytes))
            source = ir.at(ir.at(b, ir.mul(j, "%b_cs")), ir.mul(k, "%b_rs"))
            target = ir.at(strip, ir.mul(k, str(STEP_BYTES // self.step)))
            extents = ir.sub(block.columns, j), ir.sub(block.taken, k)
            self._fetch(source, j)
            self._pack_step("b", source, ("%b_cs", "%b_rs"), extents, target)
        with ir.loop("0", "%m", str(SIDE)) as i:
            rows = ir.least(ir.sub("%m", i), str(SIDE))
            source = ir.at(ir.at("%a", ir.mul(i, "%a_rs")), ir.mul(block.k, "%a_cs"))
            with ir.loop("0", block.taken, str(self.step)) as k:
                start, left = ir.at(source, ir.mul(k, "%a_cs")), ir.sub(block.taken, k)
                target = ir.at("%a_pack", ir.mul(k, str(STEP_BYTES // self.step)))
                self._pack_step("a", start, ("%a_rs", "%a_cs"), (rows, left), target)
            with ir.loop("0", block.columns, str(SIDE)) as j:
                strip = ir.at("%b_pack", ir.mul(ir.op(f"sdiv i64 {j}, {SIDE}"), strip_bytes))
                columns = ir.least(ir.sub(block.columns, j), str(SIDE))
                self._tile(block, strip, (i, ir.add(block.column, j)), (rows, columns))

    def _pack_step(
        self, which: str, source: str, strides: tuple[str, str], extents: tuple[str, str], target: str
    ) -> None:
        """One step of a strip: 32 rows of A or columns of B; strides and extents across and along k."""
        ir = self.ir
        for half in (0, 1):
            across = ir.at(source, ir.mul(strides[0], str(half * ROWS)))
            rows = ir.sub(extents[0], str(half * ROWS))
            ir.line(
                f"call void @pack_{which}(ptr {across}, i64 {strides[0]}, i64 {strides[1]}, i64 {rows}, "
                f"i64 {extents[1]}, ptr {ir.at(target, str(half * TILE_BYTES))})"
            )

    def _fetch(self, source: str, column: str) -> None:
        """Prefetch the part of a strip of B that the next step packs, 64 bytes of each of 32 columns or rows."""
        ir = self.ir
        after = ir.at(source, ir.mul("%b_rs", str(self.step)))
        along = ir.compare("eq", "%b_rs", str(ROW_BYTES // self.step))
        stride = ir.op(f"select i1 {along}, i64 %b_cs, i64 %b_rs")
        # A cache line of a row holds bytes of two strips: each prefetches half of the rows.
        odd = ir.op(f"and i64 {column}, {SIDE}") if self.step == ROW_BYTES else "0"
        start = ir.op(f"select i1 {along}, i64 0, i64 {ir.mul(odd, '%b_rs')}")
        for line in range(SIDE):
            where = ir.at(after, ir.add(start, ir.mul(stride, str(line))))
            ir.invoke("llvm.prefetch.p0", "void", f"ptr {where}", "i32 0", "i32 2", "i32 1")

    def _tile(self, block: _Block, strip: str, corner: tuple[str, str], extents: tuple[str, str]) -> None:
        ir = self.ir
        sums = ir.at(ir.at("%sums", ir.mul(corner[0], "%sums_rs")), ir.mul(corner[1], "4"))
        all_rows = ir.compare("eq", extents[0], str(SIDE))
        whole = ir.op(f"and i1 {all_rows}, {ir.compare('eq', extents[1], str(SIDE))}")
        converted = ir.op(f"and i1 {block.last}, {self.converts}")
        edge = ir.not_(whole)
        continued = ir.op(f"and i1 {edge}, {ir.not_(block.first)}")
        part = f"i64 {extents[0]}, i64 {extents[1]}"
        with ir.when(continued):
            ir.line(f"call void @copy(ptr {sums}, i64 %sums_rs, ptr %tile, i64 {_PITCH}, {part})")
        direct = ir.op(f"and i1 {whole}, {ir.not_(converted)}")
        places = [
            (
                ir.op(f"select i1 {condition}, ptr {sums}, ptr %tile"),
                ir.op(f"select i1 {condition}, i64 %sums_rs, i64 {_PITCH}"),
            )
            for condition in (whole, direct)
        ]
        self.code.emit("%a_pack", strip, block.steps, places[0], places[1], block.first)
        with ir.when(converted):
            self._convert(corner, extents)
        kept = ir.op(f"and i1 {edge}, {ir.not_(converted)}")
        with ir.when(kept):
            ir.line(f"call void @copy(ptr %tile, i64 {_PITCH}, ptr {sums}, i64 %sums_rs, {part})")

    def _convert(self, corner: tuple[str, str], extents: tuple[str, str]) -> None:
        """Store a tile's sums from the stack in C, by the finish or one conversion."""
        ir = self.ir
        if self.key.finish is not None:
            rows, columns = zip(corner, extents, strict=True)
            finish_rows(ir, self.key, rows, columns, ("%tile", str(_PITCH)))
            return
        out = ir.at(ir.at("%out", ir.mul(corner[0], "%out_rs")), ir.mul(corner[1], "%out_cs"))
        part = f"i64 {extents[0]}, i64 {extents[1]}"
        ir.line(f"call void @unpack(ptr %tile, i64 {_PITCH}, {part}, ptr {out}, i64 %out_rs, i64 %out_cs)")
