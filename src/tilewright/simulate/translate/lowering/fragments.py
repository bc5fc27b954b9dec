"""Fragments of `wmma`: matrices between memory and a warp's registers, and products of them, made of `mma` products.

A matrix is in scratch memory line by line, without gaps. Its lines are moved in pieces of 16 bytes, one a lane. The
runtime distributes that memory to registers, and collects it from them (`gathers.c`).
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.simulate.code import LANES, Value
from tilewright.simulate.isa import table
from tilewright.simulate.isa.rounding import narrow, widen
from tilewright.simulate.isa.wmma import Fragment, Tiles, moved
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.lowering.matrices import run
from tilewright.simulate.translate.memory.access import Access, resolve
from tilewright.simulate.translate.memory.gathers import in_array
from tilewright.simulate.translate.memory.generic import access_places

_PIECE_BYTES = 16
_TYPES = {8: "b64", 16: "b128"}


def emit_move(emitter: Emitter, op: Op) -> list[Value]:
    """Load or store a fragment; returns a load's registers."""
    code, form, item = emitter.code, op.form, op.instruction
    store, held = form.row.stores, moved(op.form)
    type_ = "i64" if held.bits == 64 else "i32"
    named = form["space"].split("::")[0] or "generic"
    base, offset, space = resolve(emitter, item, item.operands[0 if store else 1], named)
    access = Access(op, space, base, offset, 1, "", store, False)
    count, size = len(held.places), 8 * LANES if type_ == "i64" else 4 * LANES
    registers = code.op(f"getelementptr i8, ptr %lanes.scratch, i64 {_PLACES}", "ptr")
    table_, each, width = _places(emitter, held, by_rows=not form.has("col"))
    arguments = (registers, "ptr %lanes.scratch", f"ptr {table_}", f"i32 {count}", f"i32 {each}", f"i32 {width}")
    at = [code.op(f"getelementptr i8, {registers}, i64 {index * size}", "ptr").text for index in range(count)]
    if not store:
        _move(emitter, access, held, "tw_gather")
        code.invoke("tw_spread", "void", *arguments)
        return [code.op(f"load <{LANES} x {type_}>, ptr {place}, align 64", type_, LANES) for place in at]
    values = item.operands[1]
    assert isinstance(values, tree.Vector), "operands are checked"
    for place, value in zip(at, values.items, strict=True):
        code.store(code.cast("bitcast", code.splat(emitter.read(value, form.type_of("b"))), type_), place)
    code.invoke("tw_collect", "void", *arguments)
    _move(emitter, access, held, "tw_scatter")
    return []


#: The place of registers in scratch memory, after the largest matrix.
_PLACES = 1024


def _places(emitter: Emitter, held: Fragment, *, by_rows: bool) -> tuple[str, int, int]:
    """Byte offsets of all elements in the matrix, register by register; elements of a register; bytes of an element.

    Elements of less than a byte count as words, in memory order.
    """
    width, step = max(1, held.bits // 8), 1 if held.bits >= 8 else 32 // held.bits
    width = 4 if held.bits < 8 else width
    line_bits = (held.columns if by_rows else held.rows) * held.bits
    found = [
        ((line * line_bits + at * held.bits) // 8)
        for register in held.places
        for lane in register
        for line, at in ((row, column) if by_rows else (column, row) for row, column in lane[::step])
    ]
    return emitter.constant_array("i32", found), len(held.places[0][0]) // step, width


def _move(emitter: Emitter, access: Access, held: Fragment, function: str) -> None:
    """Move the lines between memory and scratch memory: pieces of 16 bytes, or of a whole line that is shorter."""
    code, form, item, outer = emitter.code, access.op.form, access.op.instruction, emitter.mask
    by_rows = not form.has("col")
    lines, length = (held.rows, held.columns) if by_rows else (held.columns, held.rows)
    line_bytes = length * held.bits // 8
    piece = min(_PIECE_BYTES, line_bytes)
    stride = item.operands[2] if len(item.operands) > 2 else tree.Immediate(length)
    pitch = code.resize(emitter.read(stride, "u32"), "i64", signed=False)
    pitch = code.binary("lshr", code.mul(pitch, code.const("i64", held.bits)), code.const("i64", 3))
    starts = [divmod(number * piece, line_bytes) for number in range(lines * line_bytes // piece)]
    for first in range(0, len(starts), LANES):
        here = starts[first : first + LANES]
        emitter.mask = outer if len(here) == LANES else code.and_(outer, code.const("i32", (1 << len(here)) - 1))
        here += [here[0]] * (LANES - len(here))
        ahead = code.mul(code.splat(pitch), code.constants("i64", [line for line, _ in here]))
        ahead = code.add(ahead, code.constants("i64", [at for _, at in here]))
        image = code.op(f"getelementptr i8, ptr %lanes.scratch, i64 {first * piece}", "ptr")
        part = replace(access, type=_TYPES[piece], ahead=ahead, values=[])
        if access.store and emitter.instruments:
            type_ = f"i{8 * piece}"
            part.values = [code.op(f"load <{LANES} x {type_}>, {image}, align 16", type_, LANES)]
        places = in_array(emitter, access_places(emitter, part))
        code.invoke(function, "void", image, places, f"i32 {piece}", "i32 1", emitter.mask)
    emitter.mask = outer


def emit_product(emitter: Emitter, op: Op) -> list[Value]:
    """D's registers, tile by tile."""
    form = op.form
    tiles: Tiles = form.row.emit(form)
    inner = table().find(tiles.inner)
    assert inner is not None
    a, b, c = (
        [emitter.code.splat(emitter.read(item, form.type_of(letter))) for item in operand.items]
        for letter, operand in zip("abc", op.sources, strict=True)
        if isinstance(operand, tree.Vector)
    )
    if tiles.turned:
        a, b = b, a
    if inner["ctype"] != form["ctype"]:
        c = _widened(emitter, c)
    counts, found = inner.lists, []
    for tile in range(tiles.down * tiles.across):
        of_a, of_b = (tile if many > 1 else 0 for many in (tiles.down, tiles.across))
        sums = c[tile * counts["c"] :][: counts["c"]]
        for step in range(tiles.steps):
            left = a[(of_a * tiles.steps + step) * counts["a"] :][: counts["a"]]
            right = b[(of_b * tiles.steps + step) * counts["b"] :][: counts["b"]]
            sums = run(emitter, inner, [*left, *right, *sums], counts["d"])
        found += sums
    return found if inner["dtype"] == form["dtype"] else _narrowed(emitter, found)


def _widened(emitter: Emitter, pairs: list[Value]) -> list[Value]:
    """Registers of two float16 to twice as many of float32."""
    code, found = emitter.code, []
    for pair in pairs:
        for shift in (0, 16):
            half = code.cast("trunc", code.binary("lshr", pair, code.splat(code.const("i32", shift))), "i16")
            found.append(code.cast("bitcast", widen(code, code.cast("bitcast", half, "half"), "float"), "i32"))
    return found


def _narrowed(emitter: Emitter, values: list[Value]) -> list[Value]:
    """The inverse, rounded to nearest."""
    code, found = emitter.code, []
    for low, high in zip(values[::2], values[1::2], strict=True):
        halves = [narrow(code, code.cast("bitcast", value, "float"), "half") for value in (low, high)]
        first, second = (code.cast("zext", code.cast("bitcast", half, "i16"), "i32") for half in halves)
        found.append(code.or_(first, code.binary("shl", second, code.splat(code.const("i32", 16)))))
    return found
