"""Instructions of a whole warp with lists of registers: products of matrices and the like.

Their registers are stored in memory, lane by lane. A function of the runtime reads them there and stores the results,
which are loaded again. It is called as ``f(context, results, sources, numbers...)``: registers come in the order of the
operands, 32 elements each, and the form's numbers follow as 32-bit integers.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Value, element_type
from tilewright.simulate.isa import Form
from tilewright.simulate.isa.matrix_scaled import blocks
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter


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
