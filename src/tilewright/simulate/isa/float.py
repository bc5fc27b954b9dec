"""Single and double precision arithmetic: add, sub, mul, fma, mad, div, rcp, sqrt, abs, neg, copysign.

A plain form (`fma.rn.f32`) is one LLVM operation. The manual does not fix the payload of a NaN that these forms return,
so it is that of the host.

Source: PTX ISA, section 9.7.3 "Floating Point Instructions" and 9.7.5 "Mixed Precision Floating Point Instructions".
"""

from __future__ import annotations

import functools

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa.rounding import flush, one_bits, packed, rounded, saturate, widen
from tilewright.simulate.isa.table import Form, Table

rows = Table()

F32 = dict.fromkeys("dabc", "f32")
F64 = dict.fromkeys("dabc", "f64")
F32X2 = dict.fromkeys("dabc", "f32x2")
ROUNDINGS = "rn rz rm rp"


def _arithmetic(code: Code, form: Form, operation: str, *operands: Value) -> Value:
    """One rounded operation under a form's .rnd, .ftz and .sat."""
    ftz = form.has("ftz") and operands[0].type == "float"  # rcp accepts it in double precision, without effect
    if ftz:
        operands = tuple(flush(code, x) for x in operands)
    result = rounded(code, operation, form["rnd"], *operands)
    if ftz:
        result = flush(code, result)
    return saturate(code, result) if form.has("sat") else result


def _operation(code: Code, form: Form, *operands: Value) -> Value:
    """The operation that the opcode names; mad is fma on every GPU since sm_20."""
    return _arithmetic(code, form, form.row.opcode.replace("mad", "fma"), *operands)


def _operation_x2(code: Code, form: Form, *operands: Value) -> Value:
    """An operation on both floats of packed operands."""
    return packed(code, "float", lambda *parts: _operation(code, form, *parts), *operands)


_f32 = functools.partial(rows.row, types=F32, rnd=ROUNDINGS, cost="float")
_f64 = functools.partial(rows.row, types=F64, rnd=ROUNDINGS, cost="double")

for _name, _operands, _section in (
    ("add{.rnd}", "d, a, b;", "9.7.3.3"),
    ("sub{.rnd}", "d, a, b;", "9.7.3.4"),
    ("mul{.rnd}", "d, a, b;", "9.7.3.5"),
    ("fma.rnd", "d, a, b, c;", "9.7.3.6"),
    ("mad.rnd", "d, a, b, c;", "9.7.3.7"),
):
    _f64(f"{_name}.f64 {_operands}", section=_section)(_operation)
    _f32(f"{_name}{{.ftz}}{{.sat}}.f32 {_operands}", section=_section)(_operation)
    if not _name.startswith("mad"):
        _f32(f"{_name}{{.ftz}}.f32x2 {_operands}", section=_section, types=F32X2)(_operation_x2)


@_f32("div.rnd{.ftz}.f32 d, a, b;", section="9.7.3.8")
@_f64("div.rnd.f64 d, a, b;", section="9.7.3.8")
def div(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Quotient, correctly rounded."""
    return _arithmetic(code, form, "div", a, b)


@_f32("rcp.rnd{.ftz}.f32 d, a;", section="9.7.3.13")
@_f64("rcp.rnd{.ftz}.f64 d, a;", section="9.7.3.13", note="ftz has no effect")
def rcp(code: Code, form: Form, a: Value) -> Value:
    """Reciprocal, correctly rounded."""
    return _arithmetic(code, form, "div", code.float_bits(a.type, one_bits(a.type)), a)


@_f32("sqrt.rnd{.ftz}.f32 d, a;", section="9.7.3.15")
@_f64("sqrt.rnd.f64 d, a;", section="9.7.3.15")
def sqrt(code: Code, form: Form, a: Value) -> Value:
    """Square root, correctly rounded."""
    return _arithmetic(code, form, "sqrt", a)


@rows.row("abs{.ftz}.f32 d, a;", section="9.7.3.9", types=F32, cost="float")
@rows.row("abs.f64 d, a;", section="9.7.3.9", types=F64, cost="double")
def abs_(code: Code, form: Form, a: Value) -> Value:
    """The value with its sign cleared."""
    return code.call("llvm.fabs", a.type, flush(code, a) if form.has("ftz") else a)


@rows.row("neg{.ftz}.f32 d, a;", section="9.7.3.10", types=F32, cost="float")
@rows.row("neg.f64 d, a;", section="9.7.3.10", types=F64, cost="double")
def neg(code: Code, form: Form, a: Value) -> Value:
    """The value with its sign inverted."""
    a = flush(code, a) if form.has("ftz") else a
    return code.op(f"fneg {a}", a.type, a.lanes)


@rows.row("copysign.type d, a, b;", section="9.7.3.2", type="f32 f64", cost="float")
def copysign(code: Code, form: Form, a: Value, b: Value) -> Value:
    """`b` with the sign of `a`."""
    return code.call("llvm.copysign", b.type, b, a)


_MIXED = {"d": "f32", "a": "atype", "b": "f32", "c": "f32"}
_MIXED_FACTORS = {"d": "f32", "a": "abtype", "b": "abtype", "c": "f32"}


def _mixed_sum(code: Code, form: Form, a: Value, c: Value) -> Value:
    """A half operand added to a float one."""
    result = rounded(code, "add", form["rnd"], widen(code, a, "float"), c)
    return saturate(code, result) if form.has("sat") else result


@_f32("add{.rnd}{.sat}.f32.atype d, a, c;", section="9.7.5.1", types=_MIXED, atype="f16 bf16")
def add_mixed(code: Code, form: Form, a: Value, c: Value) -> Value:
    """Sum of a half and a float."""
    return _mixed_sum(code, form, a, c)


@_f32("sub{.rnd}{.sat}.f32.atype d, a, c;", section="9.7.5.2", types=_MIXED, atype="f16 bf16")
def sub_mixed(code: Code, form: Form, a: Value, c: Value) -> Value:
    """A half minus a float."""
    return _mixed_sum(code, form, a, code.op(f"fneg {c}", c.type, c.lanes))


@_f32("fma.rnd{.sat}.f32.abtype d, a, b, c;", section="9.7.5.3", types=_MIXED_FACTORS, abtype="f16 bf16")
def fma_mixed(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Product of two halves and a float, in one rounding."""
    result = rounded(code, "fma", form["rnd"], widen(code, a, "float"), widen(code, b, "float"), c)
    return saturate(code, result) if form.has("sat") else result
