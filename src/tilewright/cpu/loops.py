"""The loops around the tile, and the module of a whole kernel.

No instruction set is known here, and no cache size but through the tile's blocks.
"""

from __future__ import annotations

from tilewright.cpu.contexts import KernelKey, tile_of
from tilewright.cpu.elements import element
from tilewright.cpu.ir import Ir
from tilewright.cpu.microkernel.families import families
from tilewright.cpu.microkernel.tile import TileCode
from tilewright.cpu.packing import emit_pack, emit_unpack

#: The kernel's argument record: 64-bit words in this order. Strides in bytes.
ARGUMENTS = (
    "m", "n", "k", "a", "a_rs", "a_cs", "b", "b_rs", "b_cs", "sums", "sums_rs", "out", "out_rs", "out_cs", "a_pack",
    "b_pack", "first",
)  # fmt: skip
_POINTERS = {"a", "b", "sums", "out", "a_pack", "b_pack"}
_BYTES = {"float": 4, "double": 8, "i32": 4, "i64": 8}


def kernel_text(key: KernelKey) -> str:
    """The LLVM module that defines `void kernel(ptr arguments)` for a key.

    It computes sums[m, n] = sums + a[m, k] b[k, n] (from the family's zero where `first`), k ascending, and copies the
    sums to `out` unless that is where they are.
    """
    ir = Ir()
    tile = tile_of(key)
    size = _BYTES[key.register]
    a, b, c = element(key.a), element(key.b), element(key.c)
    emit_pack(ir, "pack_a", a, key.register, size, tile.width)
    emit_pack(ir, "pack_b", b, key.register, size, tile.width)
    emit_unpack(ir, "unpack", key.register, size, c, tile.width)
    ir.line("define void @kernel(ptr %arguments) #0 {")
    ir.place("entry")
    code = TileCode(ir, tile, families()[key.family], key.register, size)
    code.accumulators()
    for index, name in enumerate(ARGUMENTS):
        type_ = "ptr" if name in _POINTERS else "i64"
        where = ir.at("%arguments", str(8 * index))
        ir.line(f"%{name} = load {type_}, ptr {where}, align 8")
    _k_blocks(ir, key, code)
    elsewhere = ir.op("icmp ne ptr %out, %sums")
    with ir.when(elsewhere):
        ir.line("call void @unpack(ptr %sums, i64 %sums_rs, i64 %m, i64 %n, ptr %out, i64 %out_rs, i64 %out_cs)")
    ir.line("ret void")
    ir.line("}")
    attributes = f'"prefer-vector-width"="{8 * key.vector_bytes}" "min-legal-vector-width"="{8 * key.vector_bytes}"'
    return "\n".join([*ir.lines, *ir.declarations.values(), f"attributes #0 = {{ nounwind {attributes} }}"])


def _k_blocks(ir: Ir, key: KernelKey, code: TileCode) -> None:
    tile, size = code.tile, code.bytes
    in_place = ir.compare("eq", "%a_cs", str(size)) if element(key.a).memory == key.register else "false"
    packs = ir.not_(in_place)
    row_bytes = ir.op(f"select i1 {in_place}, i64 %a_rs, i64 {tile.kc * size}")
    empty = ir.op(f"and i1 {ir.compare('eq', '%k', '0')}, {ir.compare('ne', '%first', '0')}")
    with ir.when(empty):
        _clear(ir, code)
    with ir.loop("0", "%k", str(tile.kc)) as p:
        steps = ir.least(ir.sub("%k", p), str(tile.kc))
        first = ir.op(f"and i1 {ir.compare('eq', p, '0')}, {ir.compare('ne', '%first', '0')}")
        from_a = ir.at("%a", ir.mul(p, "%a_cs"))
        with ir.when(packs):
            ir.line(
                f"call void @pack_a(ptr {from_a}, i64 %a_rs, i64 %a_cs, i64 %m, i64 {steps}, ptr %a_pack, "
                f"i64 {tile.kc * size})"
            )
        rows = ir.op(f"select i1 {in_place}, ptr {from_a}, ptr %a_pack")
        with ir.loop("0", "%n", str(tile.nc)) as column:
            columns = ir.least(ir.sub("%n", column), str(tile.nc))
            _pack_columns(ir, code, p, column, columns, steps)
            _tiles(ir, code, rows, row_bytes, column, columns, steps, first)


def _clear(ir: Ir, code: TileCode) -> None:
    """Without steps the sums are the family's zero."""
    zero = code.family.zero
    with ir.loop("0", "%m") as row:
        line = ir.at("%sums", ir.mul(row, "%sums_rs"))
        with ir.loop("0", "%n") as column:
            ir.store(code.type, zero, ir.at(line, ir.mul(column, str(code.bytes))))


def _pack_columns(ir: Ir, code: TileCode, p: str, column: str, columns: str, steps: str) -> None:
    """Pack a block of B into panels of nr columns, one after the other."""
    tile, size = code.tile, code.bytes
    with ir.loop("0", columns, str(tile.nr)) as j:
        width = ir.least(ir.sub(columns, j), str(tile.nr))
        start = ir.at(ir.at("%b", ir.mul(p, "%b_rs")), ir.mul(ir.add(column, j), "%b_cs"))
        panel = ir.at("%b_pack", ir.mul(ir.mul(j, steps), str(size)))
        ir.line(
            f"call void @pack_b(ptr {start}, i64 %b_rs, i64 %b_cs, i64 {steps}, i64 {width}, ptr {panel}, "
            f"i64 {tile.nr * size})"
        )


def _tiles(
    ir: Ir, code: TileCode, rows: str, row_bytes: str, column: str, columns: str, steps: str, first: str
) -> None:
    """All tiles of a block: rows of A stay in L1 while B's panels pass by."""
    tile, size = code.tile, code.bytes
    with ir.loop("0", "%m", str(tile.mr)) as i:
        height = ir.least(ir.sub("%m", i), str(tile.mr))
        a = ir.at(rows, ir.mul(i, row_bytes))
        line = ir.at("%sums", ir.mul(i, "%sums_rs"))
        with ir.loop("0", columns, str(tile.nr)) as j:
            width = ir.least(ir.sub(columns, j), str(tile.nr))
            b = ir.at("%b_pack", ir.mul(ir.mul(j, steps), str(size)))
            c = ir.at(line, ir.mul(ir.add(column, j), str(size)))
            whole = ir.op(f"and i1 {ir.compare('eq', height, str(tile.mr))}, {ir.compare('eq', width, str(tile.nr))}")
            with ir.when(whole):
                code.emit(a, row_bytes, b, steps, c, "%sums_rs", first, None)
            with ir.when(ir.not_(whole)):
                code.emit(a, row_bytes, b, steps, c, "%sums_rs", first, (height, width))
