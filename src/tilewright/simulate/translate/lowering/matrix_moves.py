"""Loads and stores of matrices by a warp: rows of 16 bytes, each at the address that one lane has.

The rows are consecutive in scratch memory, where a matrix of 128 bytes is one register of 32 lanes.
"""

from __future__ import annotations

from tilewright.simulate.code import LANES, Value
from tilewright.simulate.isa.matrix_moves import element_bits, transposed, transposed_places
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory.access import Access, resolve
from tilewright.simulate.translate.memory.gathers import in_array
from tilewright.simulate.translate.memory.generic import access_places

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
