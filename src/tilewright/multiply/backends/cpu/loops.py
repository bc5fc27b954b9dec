"""The loops around the tile, and the module of a whole kernel.

This module knows no instruction set, and cache sizes only through the tile's blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tilewright.multiply.backends.cpu.contexts import REGISTER_BYTES, KernelKey, tile_of
from tilewright.multiply.backends.cpu.finish import OPERAND_WORDS, emit_finish
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.backends.cpu.microkernel.dot import dot_of, emit_pack_dot_a, emit_pack_dot_b
from tilewright.multiply.backends.cpu.microkernel.families import family_of
from tilewright.multiply.backends.cpu.microkernel.tile import TileCode
from tilewright.multiply.backends.cpu.packing import emit_pack, emit_pack_pairs, emit_unpack, unit_lanes
from tilewright.multiply.problem.dtypes import element

#: Every kernel's parameters: a record, one thread's buffers, the host addresses of the three arrays, to which the
#: record's offsets are added, and a table of addresses of further arrays, if any.
SIGNATURE = "ptr %record, ptr %scratch, ptr %a_base, ptr %b_base, ptr %out_base, ptr %more"
#: The record: 64-bit words in this order. Offsets (a, b, out), strides and steps in bytes; `in_place`: sums are kept in
#: `out`, else in the scratch in rows of `sums_rs` bytes. `continues`: they start from the values there. n and k count
#: real numbers, two for each complex one.
ARGUMENTS = tuple(
    "batch a_step b_step out_step a b out m n k a_rs a_cs b_rs b_cs out_rs out_cs in_place sums_rs continues".split()
)
#: Addresses of the buffers of one thread.
SCRATCH = ("a_pack", "b_pack", "sums_pack")


def kernel_text(key: KernelKey) -> str:
    """The LLVM module that defines `void kernel(ptr record, ptr scratch, ptr a, ptr b, ptr out, ptr more)` for a key.

    For every matrix of a batch it computes out[m, n] = a[m, k] b[k, n], k ascending, from the family's zero or, if the
    record `continues`, from the values in `out`. The sums are kept in `out` if the record says `in_place`, else in the
    scratch, and converted at the end.
    """
    ir = Ir()
    tile = tile_of(key)
    size = REGISTER_BYTES[key.register]
    a, b = element(key.a), element(key.b)
    dot = dot_of(key)
    if dot is not None:
        emit_pack_dot_a(ir, "pack_a", a, dot, key.vector_bytes)
        emit_pack_dot_b(ir, "pack_b", b, dot, tile.width, tile.vectors)
    elif a.pairs == 2:
        emit_pack(ir, "pack_a", a, a.memory, a.bytes, unit_lanes(tile.width))
        emit_pack_pairs(ir, "pack_b", b, key.register, tile.width)
    else:
        # Blocks of 64 x 64 bytes, or the same packing twice, would only make the code longer.
        emit_pack(ir, "pack_a", a, key.register, size, min(tile.width, 16))
        if a == b:
            ir.line("@pack_b = internal alias void (), ptr @pack_a")
        else:
            emit_pack(ir, "pack_b", b, key.register, size, min(tile.width, 16))
    code = TileCode(ir, tile, family_of(key), key.register, size, dot is not None and dot.correction != 0)
    with batches(ir, key, code.accumulators):
        _k_blocks(ir, key, code)
    return module(ir, key)


@contextmanager
def batches(ir: Ir, key: KernelKey, declare: Callable[[], None], *, converts: bool = True) -> Iterator[None]:
    """The kernel's frame: the record's words as `%m`, `%a_rs` ..., and a loop over the batch around the body.

    The body reads the matrices at `%a`, `%b` and `%out`, and leaves the sums at `%sums`, in rows of `%sums_rs` bytes.
    If the key has a finish, the body calls it (:func:`finish_rows`). `declare` may put allocas into the entry block.
    Without `converts` the body also converts sums that are not in `out`.
    """
    c, size = element(key.c), REGISTER_BYTES[key.register]
    if key.finish is not None:
        emit_finish(ir, "finish", key.finish, key.register, size, key.vector_bytes // size)
    elif c.pairs == 2:
        emit_unpack(ir, "unpack", c.memory, c.bytes, c, key.vector_bytes // c.bytes)
    else:
        emit_unpack(ir, "unpack", key.register, size, c, key.vector_bytes // size)
    with ir.function("kernel", SIGNATURE, internal=False):
        declare()
        for index, name in enumerate(ARGUMENTS):
            offset = "first_" if name in ("a", "b", "out") else ""
            ir.line(f"%{offset}{name} = load i64, ptr {ir.at('%record', str(8 * index))}, align 8")
        for index, name in enumerate(SCRATCH):
            ir.line(f"%{name} = load ptr, ptr {ir.at('%scratch', str(8 * index))}, align 8")
        _load_operands(ir, key)
        in_place = ir.compare("ne", "%in_place", "0")
        with ir.loop("0", "%batch") as t:
            for name in ("a", "b", "out"):
                offset = ir.add(f"%first_{name}", ir.mul(t, f"%{name}_step"))
                ir.line(f"%{name} = getelementptr i8, ptr %{name}_base, i64 {offset}")
            ir.line(f"%sums = select i1 {in_place}, ptr %out, ptr %sums_pack")
            for x in _operands(key):
                ir.line(f"%{x} = getelementptr i8, ptr %{x}_base, i64 {ir.add(f'%{x}_first', ir.mul(t, f'%{x}_step'))}")
            yield
            if key.finish is None and converts:
                with ir.when(ir.not_(in_place)):
                    count = _units(ir, "%n", c.pairs)
                    ir.line(
                        f"call void @unpack(ptr %sums, i64 %sums_rs, i64 %m, i64 {count}, ptr %out, i64 %out_rs, "
                        "i64 %out_cs)"
                    )


def module(ir: Ir, key: KernelKey) -> str:
    """The module's text, for vectors of the key's width."""
    attributes = f'"prefer-vector-width"="{8 * key.vector_bytes}" "min-legal-vector-width"="{8 * key.vector_bytes}"'
    return "\n".join([*ir.lines, *ir.declarations.values(), f"attributes #0 = {{ nounwind {attributes} }}"])


def _k_blocks(ir: Ir, key: KernelKey, code: TileCode) -> None:
    tile, size = code.tile, code.bytes
    dot = dot_of(key)
    group = 1 if dot is None else dot.group
    a = element(key.a)
    plain = group == 1 and (a.memory == key.register or a.pairs == 2)
    in_place = ir.compare("eq", "%a_cs", str(a.bytes)) if plain else "false"
    packs = ir.not_(in_place)
    row_bytes = ir.op(f"select i1 {in_place}, i64 %a_rs, i64 {tile.kc * size}")
    fresh = ir.compare("eq", "%continues", "0")
    with ir.when(ir.compare("eq", "%k", "0")):
        with ir.when(fresh):
            clear_sums(ir, code.type, code.family.zero)
        finish_rows(ir, key)
    with ir.loop("0", "%k", str(tile.kc * group)) as p:
        taken = ir.least(ir.sub("%k", p), str(tile.kc * group))
        steps = taken if group == 1 else ir.op(f"sdiv i64 {ir.add(taken, str(group - 1))}, {group}")
        first = ir.op(f"and i1 {ir.compare('eq', p, '0')}, {fresh}")
        from_a = ir.at("%a", ir.mul(_units(ir, p, a.pairs), "%a_cs"))
        with ir.when(packs):
            ir.line(
                f"call void @pack_a(ptr {from_a}, i64 %a_rs, i64 %a_cs, i64 %m, i64 {_units(ir, taken, a.pairs)}, "
                f"ptr %a_pack, i64 {tile.kc * size})"
            )
        rows = ir.op(f"select i1 {in_place}, ptr {from_a}, ptr %a_pack")
        with ir.loop("0", "%n", str(tile.nc)) as column:
            columns = ir.least(ir.sub("%n", column), str(tile.nc))
            panel_bytes = ir.mul(ir.add(steps, str(int(code.corrected))), str(tile.nr * size))
            _pack_columns(ir, code, (p, taken), (column, columns), panel_bytes, (group == 1, a.pairs))
            last = ir.compare("sge", ir.add(p, taken), "%k")
            with _tiles(ir, code, (rows, row_bytes), (column, columns), panel_bytes, steps, first) as done:
                if key.finish is not None:
                    with ir.when(last):
                        finish_rows(ir, key, done, (column, columns))


def clear_sums(ir: Ir, type_: str, zero: str) -> None:
    """Set the sums of C to a family's zero."""
    size = REGISTER_BYTES[type_]
    with ir.loop("0", "%m") as row:
        line = ir.at("%sums", ir.mul(row, "%sums_rs"))
        with ir.loop("0", "%n") as column:
            ir.store(type_, zero, ir.at(line, ir.mul(column, str(size))))


def _panel(ir: Ir, code: TileCode, j: str, panel_bytes: str) -> str:
    """The address of the panel of column j."""
    return ir.at("%b_pack", ir.mul(ir.op(f"sdiv i64 {j}, {code.tile.nr}"), panel_bytes))


def _pack_columns(
    ir: Ir,
    code: TileCode,
    steps: tuple[str, str],
    block: tuple[str, str],
    panel_bytes: str,
    form: tuple[bool, int],
) -> None:
    """Pack a block of B (steps from, count; columns from, count) into panels of nr columns, one after the other.

    `form` gives whether the panel's rows have a pitch, and the real numbers of an element.
    """
    tile, size = code.tile, code.bytes
    pitched, pairs = form
    row, rows = (_units(ir, x, pairs) for x in steps)
    with ir.loop("0", block[1], str(tile.nr)) as j:
        width = _units(ir, ir.least(ir.sub(block[1], j), str(tile.nr)), pairs)
        column = _units(ir, ir.add(block[0], j), pairs)
        start = ir.at(ir.at("%b", ir.mul(row, "%b_rs")), ir.mul(column, "%b_cs"))
        panel = _panel(ir, code, j, panel_bytes)
        pitch = f", i64 {tile.nr * size}" if pitched else ""
        ir.line(f"call void @pack_b(ptr {start}, i64 %b_rs, i64 %b_cs, i64 {rows}, i64 {width}, ptr {panel}{pitch})")
        if code.type in ("float", "double"):
            _clear_beyond(ir, code, panel, steps[1], ir.sub(block[1], j))


def _clear_beyond(ir: Ir, code: TileCode, panel: str, steps: str, columns: str) -> None:
    """Clear the columns that a panel at the edge lacks.

    Leftovers of earlier products may be subnormal, and a multiply-add of a subnormal takes a hundred times as long.

    Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, "Floating-Point Assists".
    """
    width = code.tile.width
    with ir.when(ir.compare("slt", columns, str(code.tile.nr))):
        masks = [
            ir.op(f"xor <{width} x i1> {ir.lanes_below(width, ir.sub(columns, str(v * width)))}, splat (i1 true)")
            for v in range(code.tile.vectors)
        ]
        with ir.loop("0", steps) as p:
            row = ir.at(panel, ir.mul(p, str(code.tile.nr * code.bytes)))
            for v, mask in enumerate(masks):
                ir.masked_store(code.type, width, "zeroinitializer", ir.at(row, str(v * width * code.bytes)), mask)


def _units(ir: Ir, count: str, pairs: int) -> str:
    """A number of elements, from that of the real numbers they are made of."""
    return count if pairs == 1 else ir.op(f"lshr i64 {count}, 1")


@contextmanager
def _tiles(
    ir: Ir, code: TileCode, a: tuple[str, str], block: tuple[str, str], panel_bytes: str, steps: str, first: str
) -> Iterator[tuple[str, str]]:
    """All tiles of a block: rows of A (pointer, stride) stay in L1 while B's panels stream through.

    The body runs after each row of tiles, with its rows (from, count).
    """
    tile, size = code.tile, code.bytes
    with ir.loop("0", "%m", str(tile.mr)) as i:
        height = ir.least(ir.sub("%m", i), str(tile.mr))
        rows = ir.at(a[0], ir.mul(i, a[1]))
        line = ir.at("%sums", ir.mul(i, "%sums_rs"))
        with ir.loop("0", block[1], str(tile.nr)) as j:
            width = ir.least(ir.sub(block[1], j), str(tile.nr))
            b = _panel(ir, code, j, panel_bytes)
            c = ir.at(line, ir.mul(ir.add(block[0], j), str(size)))
            whole = ir.op(f"and i1 {ir.compare('eq', height, str(tile.mr))}, {ir.compare('eq', width, str(tile.nr))}")
            with ir.when(whole):
                code.emit(rows, a[1], b, steps, c, "%sums_rs", first, None)
            with ir.when(ir.not_(whole)):
                code.emit(rows, a[1], b, steps, c, "%sums_rs", first, (height, width))
        yield i, height


def _operands(key: KernelKey) -> list[str]:
    """Names of the finish's operands."""
    return [f"x{i}" for i in range(len(key.finish.operands) if key.finish is not None else 0)]


def _load_operands(ir: Ir, key: KernelKey) -> None:
    """Load the finish's operands from the record and the table of further arrays."""
    for i, x in enumerate(_operands(key)):
        ir.line(f"%{x}_base = load ptr, ptr {ir.at('%more', str(8 * i))}, align 8")
        for j, word in enumerate(OPERAND_WORDS):
            at = ir.at("%record", str(8 * (len(ARGUMENTS) + len(OPERAND_WORDS) * i + j)))
            ir.line(f"%{x}_{word} = load i64, ptr {at}, align 8")


def finish_rows(
    ir: Ir,
    key: KernelKey,
    rows: tuple[str, str] = ("0", "%m"),
    columns: tuple[str, str] = ("0", "%n"),
    sums: tuple[str, str] | None = None,
) -> None:
    """Call the finish, if any, for a completely summed rectangle of C (rows and columns: from, count).

    Its sums are at `%sums`, or at the pointer and pitch of `sums`.
    """
    if key.finish is None:
        return
    if sums is None:
        along = ir.mul(columns[0], str(REGISTER_BYTES[key.register]))
        sums = ir.at(ir.at("%sums", ir.mul(rows[0], "%sums_rs")), along), "%sums_rs"
    words = [f"ptr {sums[0]}, i64 {sums[1]}"]
    words.append(f"i64 {rows[1]}, i64 {columns[1]}")
    for x in ("out", *_operands(key)):
        where = ir.at(ir.at(f"%{x}", ir.mul(rows[0], f"%{x}_rs")), ir.mul(columns[0], f"%{x}_cs"))
        words.append(f"ptr {where}, i64 %{x}_rs, i64 %{x}_cs")
    ir.line(f"call void @finish({', '.join(words)})")
