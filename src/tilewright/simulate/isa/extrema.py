"""Minimum and maximum of every float type.

-0 is less than +0. Without `.NaN` one NaN operand is ignored, and two give the canonical NaN; with `.NaN` one is
enough. Halves are compared in float, which holds them exactly.

Source: PTX ISA, sections 9.7.3.11, 9.7.3.12 (single and double) and 9.7.4.7, 9.7.4.8 (half).
"""

from __future__ import annotations

from functools import reduce

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa.half import halves
from tilewright.simulate.isa.rounding import FORMATS, bits_of, canonical, float_of, flush, narrow, widen
from tilewright.simulate.isa.table import Form, Table

rows = Table()

_F32 = dict.fromkeys("dabc", "f32")


def _of_two(code: Code, form: Form, a: Value, b: Value) -> Value:
    """The smaller or larger of two; a NaN result may have any NaN's bits.

    It compares, because LLVM 22 on x86 with AVX-512 gets `llvm.minimum`, `llvm.maximum` and their `num` variants wrong
    if one of two scalars is known not to be a NaN and the other is one.
    """
    compare, join = ("olt", code.or_) if form.row.opcode == "min" else ("ogt", code.and_)
    chosen = code.select(code.fcmp(compare, a, b), a, b)
    equal = float_of(code, join(bits_of(code, a), bits_of(code, b)), a.type)  # only the signs of zeros can differ
    chosen = code.select(code.fcmp("oeq", a, b), equal, chosen)
    decisive = a if form.has("NaN") else b  # if this is a NaN, the result is `a`; else it is `chosen`
    return code.select(code.fcmp("uno", decisive, decisive), a, chosen)


def _extreme(code: Code, form: Form, *operands: Value) -> Value:
    """Minimum or maximum of two or three floats of one type, as the form's modifiers say."""
    type_ = operands[0].type
    if form.has("ftz"):
        operands = tuple(flush(code, x) for x in operands)
    signs = [code.and_(bits_of(code, x), code.const(f"i{x.bits}", FORMATS[type_].sign)) for x in operands]
    wide = type_ if type_ in ("float", "double") else "float"
    values = [widen(code, x, wide) for x in operands]
    if form.has("abs"):
        values = [code.call("llvm.fabs", wide, x) for x in values]
    result = narrow(code, reduce(lambda a, b: _of_two(code, form, a, b), values), type_)
    if form.has("xorsign"):
        signed = code.or_(bits_of(code, result), code.xor(*signs))
        result = float_of(code, signed, type_)
    return canonical(code, result)


@rows.row("min{.ftz}{.NaN}.f32 d, a, b{, c};", section="9.7.3.11", types=_F32, cost="float")
@rows.row("min{.ftz}{.NaN}.xorsign.abs.f32 d, a, b;", section="9.7.3.11", types=_F32, cost="float")
@rows.row("min{.ftz}{.NaN}.abs.f32 d, a, b, c;", section="9.7.3.11", types=_F32, cost="float")
@rows.row("min.f64 d, a, b;", section="9.7.3.11", types=dict.fromkeys("dab", "f64"), cost="double")
@rows.row("max{.ftz}{.NaN}.f32 d, a, b{, c};", section="9.7.3.12", types=_F32, cost="float")
@rows.row("max{.ftz}{.NaN}.xorsign.abs.f32 d, a, b;", section="9.7.3.12", types=_F32, cost="float")
@rows.row("max{.ftz}{.NaN}.abs.f32 d, a, b, c;", section="9.7.3.12", types=_F32, cost="float")
@rows.row("max.f64 d, a, b;", section="9.7.3.12", types=dict.fromkeys("dab", "f64"), cost="double")
def extreme(code: Code, form: Form, *operands: Value) -> Value:
    """Minimum or maximum."""
    return _extreme(code, form, *operands)


_HALF = "f16 f16x2"
_BFLOAT = "bf16 bf16x2"


@rows.row("min{.ftz}{.NaN}.type d, a, b;", section="9.7.4.7", type=_HALF, cost="half")
@rows.row("min{.ftz}{.NaN}.xorsign.abs.type d, a, b;", section="9.7.4.7", type=_HALF, cost="half")
@rows.row("min{.NaN}.type d, a, b;", section="9.7.4.7", type=_BFLOAT, cost="half")
@rows.row("min{.NaN}.xorsign.abs.type d, a, b;", section="9.7.4.7", type=_BFLOAT, cost="half")
@rows.row("max{.ftz}{.NaN}.type d, a, b;", section="9.7.4.8", type=_HALF, cost="half")
@rows.row("max{.ftz}{.NaN}.xorsign.abs.type d, a, b;", section="9.7.4.8", type=_HALF, cost="half")
@rows.row("max{.NaN}.type d, a, b;", section="9.7.4.8", type=_BFLOAT, cost="half")
@rows.row("max{.NaN}.xorsign.abs.type d, a, b;", section="9.7.4.8", type=_BFLOAT, cost="half")
def extreme_half(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Minimum or maximum of halves."""
    return halves(code, form, lambda x, y: _extreme(code, form, x, y), a, b)
