"""Packing: copies any strides and dtypes to contiguous rows of the register type, and applies nothing else."""

from __future__ import annotations

from tilewright.multiply.backends.cpu.elements import narrow, vector, widen
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.problem.dtypes import Dtype

#: Strides between columns, in elements, that are loaded as vectors.
_VECTOR_STEPS = (1, 2, -1)
#: Dtypes of a round where each is copied by itself.
_UNROLL = 8
#: Steps along k for which rows are packed at a time, where B is not packed whole.
STEPS = 4096
#: Parameters of the packing functions.
_PACKS = "ptr %src, i64 %rs, i64 %cs, i64 %rows, i64 %columns, ptr %dst, i64 %pitch"


def emit_pack(ir: Ir, symbol: str, source: Dtype, target: str, target_bytes: int, width: int) -> None:
    """`void symbol(src, rs, cs, rows, columns, dst, pitch)`: dst[r, c] = src[r, c]; strides and pitch in bytes.

    Columns at a step of 1, 2 or -1 elements are read in vectors; contiguous rows in blocks transposed in registers; any
    other stride element by element.
    """
    with ir.function(symbol, _PACKS):
        size = source.bytes
        across = ir.compare("eq", "%rs", str(size))
        others = across
        for step in _VECTOR_STEPS:
            here = ir.compare("eq", "%cs", str(step * size))
            with ir.when(here), ir.loop("0", "%rows") as row:
                _copy_row(ir, source, target, target_bytes, width, row, step)
            others = ir.op(f"or i1 {others}, {here}")
        across = ir.op(f"and i1 {across}, {ir.not_(ir.compare('eq', '%cs', str(size)))}")
        for step in _VECTOR_STEPS[1:]:
            across = ir.op(f"and i1 {across}, {ir.not_(ir.compare('eq', '%cs', str(step * size)))}")
        # Rows and columns of whole blocks; what is left of them and of any other stride is one loop.
        whole_rows, whole_columns = (
            ir.op(f"select i1 {across}, i64 {ir.op(f'and i64 %{x}, -{width}')}, i64 0") for x in ("rows", "columns")
        )
        _transpose(ir, source, target, target_bytes, width, (whole_rows, whole_columns))
        left = ir.op(f"select i1 {others}, i1 {across}, i1 true")
        with ir.when(left), ir.loop("0", "%rows") as row:
            start = ir.op(f"select i1 {ir.compare('slt', row, whole_rows)}, i64 {whole_columns}, i64 0")
            _rest_of_row(ir, source, target, target_bytes, row, start)


def unit_lanes(width: int) -> int:
    """Complex numbers of a vector of `width` parts; at least 2, which LLVM splits if it must."""
    return max(2, width // 2)


def emit_pack_pairs(ir: Ir, symbol: str, source: Dtype, part: str, width: int) -> None:
    """`void symbol(src, rs, cs, rows, columns, dst, pitch)` for complex numbers as 2 x 2 matrices of real ones.

    Row r becomes two rows of twice as many real numbers: (re, im, ...) and (-im, re, ...). Rows and columns count
    complex numbers, the pitch is that of a real row. `width` is of a vector of parts.
    """
    emit_pack(ir, f"{symbol}_units", source, source.memory, source.bytes, unit_lanes(width))
    with ir.function(symbol, _PACKS):
        apart = ir.mul("%pitch", "2")
        ir.line(
            f"call void @{symbol}_units(ptr %src, i64 %rs, i64 %cs, i64 %rows, i64 %columns, ptr %dst, i64 {apart})"
        )
        whole = ir.op(f"and i64 %columns, -{width // 2}")
        with ir.loop("0", "%rows") as row:
            first = ir.at("%dst", ir.mul(row, apart))
            second = ir.at(first, "%pitch")
            for start, end, lanes in (("0", whole, width), (whole, "%columns", 2)):
                full = vector(part, lanes)
                with ir.loop(start, end, str(lanes // 2)) as c:
                    offset = ir.mul(c, str(source.bytes))
                    value = ir.load(full, ir.at(first, offset))
                    negative = ir.op(f"fneg {full} {value}")
                    # Even lanes take the negative of the next lane, odd lanes the lane before.
                    order = [lanes + 1 + lane if not lane % 2 else lane - 1 for lane in range(lanes)]
                    ir.store(full, _shuffle(ir, full, value, negative, order), ir.at(second, offset))


def emit_unpack(ir: Ir, symbol: str, source: str, source_bytes: int, target: Dtype, width: int) -> None:
    """`void symbol(src, pitch, rows, columns, dst, rs, cs)`: stores sums, with one rounding to the output dtype."""
    with ir.function(symbol, "ptr %src, i64 %pitch, i64 %rows, i64 %columns, ptr %dst, i64 %rs, i64 %cs"):
        along = ir.compare("eq", "%cs", str(target.bytes))
        whole = ir.op(f"select i1 {along}, i64 {ir.op(f'and i64 %columns, -{width}')}, i64 0")
        with ir.loop("0", "%rows") as row:
            src, dst = ir.at("%src", ir.mul(row, "%pitch")), ir.at("%dst", ir.mul(row, "%rs"))
            with ir.loop("0", whole, str(width)) as c:
                value = ir.load(vector(source, width), ir.at(src, ir.mul(c, str(source_bytes))))
                result = narrow(ir, value, source, target, width)
                ir.store(vector(target.memory, width), result, ir.at(dst, ir.mul(c, str(target.bytes))))
            with ir.loop(whole, "%columns") as c:
                value = ir.load(source, ir.at(src, ir.mul(c, str(source_bytes))))
                ir.store(target.memory, narrow(ir, value, source, target, 1), ir.at(dst, ir.mul(c, "%cs")))


def _copy_row(ir: Ir, source: Dtype, target: str, target_bytes: int, width: int, row: str, step: int) -> None:
    """One row, a vector of columns at a time; reads nothing outside of the row's elements."""
    src, dst = ir.at("%src", ir.mul(row, "%rs")), ir.at("%dst", ir.mul(row, "%pitch"))
    spare = 0 if abs(step) == 1 else 1  # the element after a vector's last may be outside of the matrix
    whole = ir.op(f"and i64 {ir.sub('%columns', str(spare))}, -{width}")
    reach = abs(step) * width
    lanes = [lane * step if step > 0 else width - 1 - lane for lane in range(width)]
    with ir.loop("0", whole, str(width)) as c:
        start = ir.add(c, str(width - 1)) if step < 0 else c
        value = ir.load(vector(source.memory, reach), ir.at(src, ir.mul(start, "%cs")))
        if step != 1:
            full = vector(source.memory, reach)
            value = _shuffle(ir, full, value, "poison", lanes)
        wide = widen(ir, source, value, target, width)
        ir.store(vector(target, width), wide, ir.at(dst, ir.mul(c, str(target_bytes))))
    with ir.loop(ir.invoke("llvm.smax.i64", "i64", f"i64 {whole}", "i64 0"), "%columns") as c:
        value = ir.load(source.memory, ir.at(src, ir.mul(c, "%cs")))
        ir.store(target, widen(ir, source, value, target, 1), ir.at(dst, ir.mul(c, str(target_bytes))))


def _transpose(ir: Ir, source: Dtype, target: str, target_bytes: int, width: int, whole: tuple[str, str]) -> None:
    """Rows are contiguous in memory: load vectors down the columns, transpose square blocks, store along rows.

    `whole` has the rows and columns that such blocks fill.
    """
    with ir.loop("0", whole[0], str(width)) as row, ir.loop("0", whole[1], str(width)) as c:
        block = []
        for i in range(width):
            column = ir.at("%src", ir.mul(ir.add(c, str(i)), "%cs"))
            value = ir.load(vector(source.memory, width), ir.at(column, ir.mul(row, str(source.bytes))))
            block.append(widen(ir, source, value, target, width))
        for i, value in enumerate(transposed(ir, block, target, width)):
            line = ir.at("%dst", ir.mul(ir.add(row, str(i)), "%pitch"))
            ir.store(vector(target, width), value, ir.at(line, ir.mul(c, str(target_bytes))))


def _rest_of_row(ir: Ir, source: Dtype, target: str, target_bytes: int, row: str, start: str) -> None:
    """The columns of one row from `start` on, one by one."""
    src, dst = ir.at("%src", ir.mul(row, "%rs")), ir.at("%dst", ir.mul(row, "%pitch"))
    steps = [ir.mul("%cs", str(i)) for i in range(_UNROLL)]
    count = ir.op(f"and i64 {ir.sub('%columns', start)}, -{_UNROLL}")
    middle = ir.add(start, count)
    with ir.loop(start, middle, str(_UNROLL)) as c:
        line, place = ir.at(src, ir.mul(c, "%cs")), ir.at(dst, ir.mul(c, str(target_bytes)))
        values = [widen(ir, source, ir.load(source.memory, ir.at(line, step)), target, 1) for step in steps]
        for i, value in enumerate(values):
            ir.store(target, value, ir.at(place, str(i * target_bytes)))
    with ir.loop(middle, "%columns") as c:
        value = ir.load(source.memory, ir.at(src, ir.mul(c, "%cs")))
        ir.store(target, widen(ir, source, value, target, 1), ir.at(dst, ir.mul(c, str(target_bytes))))


def transposed(ir: Ir, rows: list[str], type_: str, width: int) -> list[str]:
    """The transpose of a square block held in registers: log2(width) rounds of two-vector shuffles."""
    full = vector(type_, width)
    half = 1
    while half < width:
        fresh = list(rows)
        for i in range(width):
            if i & half:
                continue
            low, high = rows[i], rows[i + half]
            take_low = [lane if not lane & half else width + lane - half for lane in range(width)]
            take_high = [lane + half if not lane & half else width + lane for lane in range(width)]
            fresh[i] = _shuffle(ir, full, low, high, take_low)
            fresh[i + half] = _shuffle(ir, full, low, high, take_high)
        rows = fresh
        half *= 2
    return rows


def _shuffle(ir: Ir, full: str, low: str, high: str, lanes: list[int]) -> str:
    order = ", ".join(f"i32 {lane}" for lane in lanes)
    return ir.op(f"shufflevector {full} {low}, {full} {high}, <{len(lanes)} x i32> <{order}>")


def packed_rows(
    ir: Ir, operand: str, form: tuple[str, str, str], steps: tuple[str, str], plain: bool, size: int
) -> tuple[str, str]:
    """Where rows of an operand are contiguous and of the register type: their first, and the bytes between two.

    They are packed unless they lie so in memory and are `plain`, of the register type of `size` bytes. `form` has the
    operand's stride between rows, its stride along k and its rows; `steps` the first step along k and their count.
    """
    (between, along, rows), (start, taken) = form, steps
    first = ir.at(f"%{operand}", ir.mul(start, along))
    in_place = ir.compare("eq", along, str(size)) if plain else "false"
    with ir.when(ir.not_(in_place)):
        ir.line(
            f"call void @pack_{operand}(ptr {first}, i64 {between}, i64 {along}, i64 {rows}, i64 {taken}, "
            f"ptr %{operand}_pack, i64 {STEPS * size})"
        )
    where = ir.op(f"select i1 {in_place}, ptr {first}, ptr %{operand}_pack")
    return where, ir.op(f"select i1 {in_place}, i64 {between}, i64 {STEPS * size}")
