"""Instructions of a whole warp with lists of registers: products of matrices, and loads and stores of matrices.

Their registers are stored in memory, lane by lane. A function of the runtime reads them there and stores the results,
which are loaded again. It is called as ``f(context, results, sources, numbers...)``: registers come in the order of the
operands, 32 elements each, and the form's numbers follow as 32-bit integers.

A matrix in memory has rows of 16 bytes, each at the address that one lane has. The rows are consecutive in scratch
memory, where a matrix of 128 bytes is one register of 32 lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Value, element_type
from tilewright.simulate.isa import Form
from tilewright.simulate.isa.matrix_moves import element_bits, transposed, transposed_places
from tilewright.simulate.isa.matrix_scaled import blocks
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory.access import Access, resolve
from tilewright.simulate.translate.memory.gathers import in_array
from tilewright.simulate.translate.memory.generic import access_places


def emit_matrix(emitter: Emitter, op: Op) -> list[Value]:
    """The result registers of an instruction. Registers of inactive lanes count like all others."""
    code, form = emitter.code, op.form
    if form.has("block_scale"):
        _check_selectors(emitter, op)
    letters = form.row.operand_names(len(op.instruction.operands))[form.row.writes :]
    values = [
        code.splat(emitter.read(item, form.type_of(letter)))
        for letter, operand in zip(letters, op.sources, strict=True)
        for item in (operand.items if isinstance(operand, tree.Vector) else (operand,))
    ]
    return run(emitter, form, values, len(op.destinations))


def _check_selectors(emitter: Emitter, op: Op) -> None:
    """Literals that select scales: a byte, and one lane of four (for A a pair). Source: PTX ISA, 9.7.14.3."""
    item, first = op.instruction, range(0, 4, blocks(op.form))
    for name, lanes in ("ia", range(2)), ("ib", range(4)):
        operand = op.named[name]
        assert isinstance(operand, tree.Vector)
        for chosen, allowed in zip(operand.items, (first, lanes), strict=True):
            if isinstance(chosen, tree.Immediate) and chosen.value not in allowed:
                raise PtxError(
                    f"{emitter.module.path}:{item.ptx_line}: '{item.name}' chooses scales by a byte of {list(first)} "
                    f"and a lane of {list(lanes)} (got {operand_text(operand)})"
                )


def run(emitter: Emitter, form: Form, values: Sequence[Value], count: int) -> list[Value]:
    """The result registers of a form, computed by the runtime from the source registers."""
    code, type_ = emitter.code, element_type(form.type_of("d"))
    result_bytes = LANES * Value("", type_).bits // 8
    sources = _place(emitter, count * result_bytes)
    at = count * result_bytes
    for value in values:
        code.store(value, _place(emitter, at).text)
        at += LANES * value.bits // 8
    symbol, numbers = form.row.emit(form)
    results = _place(emitter, 0)
    code.invoke(symbol, "void", "ptr %context", results, sources, *(f"i32 {number}" for number in numbers))
    slots = [_place(emitter, index * result_bytes) for index in range(count)]
    return [code.op(f"load <{LANES} x {type_}>, {slot}, align 64", type_, LANES) for slot in slots]


def _place(emitter: Emitter, offset: int) -> Value:
    """A place in scratch memory."""
    return emitter.code.op(f"getelementptr i8, ptr %lanes.scratch, i64 {offset}", "ptr")


_ROW_BYTES, _ROWS = 16, 8
#: The place of registers in scratch memory, after the rows, if they differ from the rows.
_REGISTERS = LANES * _ROW_BYTES


def emit_rows(emitter: Emitter, op: Op) -> list[Value]:
    """Load or store matrices; returns a load's registers. Rows of inactive lanes are zeros."""
    store = op.form.row.stores
    address, offset, space = resolve(
        emitter, op.instruction, op.instruction.operands[0 if store else 1], "shared" if op.form["space"] else "generic"
    )
    access = Access(op, space, address, offset, 1, "b128", store, False)
    count, outer = op.form.lists["b" if store else "d"], emitter.mask
    if count * _ROWS < LANES:  # the other lanes' addresses are not used (m16n16: two registers are 16 rows)
        emitter.mask = emitter.code.and_(outer, emitter.code.const("i32", (1 << count * _ROWS) - 1))
    values = _store(emitter, access, count) if store else _load(emitter, access, count)
    emitter.mask = outer
    return values


def _load(emitter: Emitter, access: Access, count: int) -> list[Value]:
    code, form = emitter.code, access.op.form
    _move(emitter, access, "tw_gather")
    bits = element_bits(form)
    if bits < 8:
        code.invoke("tw_unpack", "void", "ptr %lanes.scratch", f"i32 {bits}")
    start = 0
    if bits < 16 and form.has("trans"):
        start = _exchange(emitter, access, count, "tw_spread")
    places = [_matrix(emitter, index, start) for index in range(count)]
    matrices = [code.op(f"load <{LANES} x i32>, ptr {place}, align 64", "i32", LANES) for place in places]
    return [transposed(code, matrix) for matrix in matrices] if bits == 16 and form.has("trans") else matrices


def _store(emitter: Emitter, access: Access, count: int) -> list[Value]:
    code, form, registers = emitter.code, access.op.form, access.op.instruction.operands[1]
    assert isinstance(registers, tree.Vector), "operands are checked"
    bytes_ = element_bits(form) == 8
    for index, register in enumerate(registers.items):
        matrix = code.splat(emitter.read(register, "b32"))
        turned = transposed(code, matrix) if form.has("trans") and not bytes_ else matrix
        code.store(turned, _matrix(emitter, index, _REGISTERS if bytes_ else 0))
    if bytes_:
        _exchange(emitter, access, count, "tw_collect")
    if emitter.instruments:
        access.values = [code.op(f"load <{LANES} x i128>, ptr %lanes.scratch, align 64", "i128", LANES)]
    _move(emitter, access, "tw_scatter")
    return []


def _exchange(emitter: Emitter, access: Access, count: int, function: str) -> int:
    """Move bytes between the rows and the registers after them; returns the start of the registers."""
    places = emitter.constant_array("i32", transposed_places(access.op.form, count))
    registers = _matrix(emitter, 0, _REGISTERS)
    where = (f"ptr {registers}", "ptr %lanes.scratch", f"ptr {places}")
    emitter.code.invoke(function, "void", *where, f"i32 {count}", "i32 4", "i32 1")
    return _REGISTERS


def _move(emitter: Emitter, access: Access, function: str) -> None:
    """Move rows between memory and scratch memory, for the lanes that run."""
    code, mask = emitter.code, emitter.mask
    places = in_array(emitter, access_places(emitter, access))
    code.invoke(function, "void", "ptr %lanes.scratch", places, f"i32 {_ROW_BYTES}", "i32 1", mask)


def _matrix(emitter: Emitter, index: int, start: int) -> str:
    at = start + index * _ROWS * _ROW_BYTES
    return emitter.code.op(f"getelementptr i8, ptr %lanes.scratch, i64 {at}", "ptr").text
