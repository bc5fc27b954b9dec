"""Half precision arithmetic: add, sub, mul, fma, neg and abs of f16, bf16 and their packed forms.

Every result is rounded once. A sum or product of halves is computed in float, which has more than twice as many bits,
so the second rounding is exact. An fma uses a sum rounded to odd. NaN results are canonical only where the manual says
so (`.relu`); elsewhere any NaN may be the result.

Source: PTX ISA, section 9.7.4 "Half Precision Floating Point Instructions"; for the roundings see
:mod:`tilewright.simulate.isa.rounding`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.simulate.code import Code, Value, element_type
from tilewright.simulate.isa.rounding import (
    FORMATS,
    bits_of,
    float_of,
    flush,
    narrow,
    packed,
    relu,
    saturate,
    select_bits,
    sum_to_odd,
    widen,
)
from tilewright.simulate.isa.table import Form, Meaning, Table

rows = Table()

_TYPES = ("f16", "f16x2", "bf16", "bf16x2")


def halves(code: Code, form: Form, meaning: Callable[..., Value], *operands: Value) -> Value:
    """Apply the meaning of one half to a form's operands, which may be packed pairs."""
    type_ = form.type_of("d")
    if type_.endswith("x2"):
        return packed(code, element_type(type_.removesuffix("x2")), meaning, *operands)
    return meaning(*operands)


def _family(
    opcode: str, tail: str, section: str, *, half: str, bfloat: str, **where: Any
) -> Callable[[Meaning], Meaning]:
    """Rows of one opcode for the four types; `half` and `bfloat` are the modifiers that f16 and bf16 accept."""

    def register(meaning: Meaning) -> Meaning:
        for type_ in _TYPES:
            modifiers = bfloat if type_.startswith("b") else half
            types = dict.fromkeys("dabc", type_)
            rows.row(f"{opcode}{modifiers}.{type_} {tail}", section=section, types=types, cost="half", **where)(meaning)
        return meaning

    return register


def _finish(code: Code, form: Form, x: Value) -> Value:
    """A result under the form's .ftz, .sat and .relu."""
    if form.has("ftz"):
        x = flush(code, x)
    if form.has("sat"):
        return saturate(code, x)
    return relu(code, x) if form.has("relu") else x


def _through_float(code: Code, form: Form, operation: str, *operands: Value) -> Value:
    """An operation of two halves in float, rounded to half."""

    def one(*parts: Value) -> Value:
        inputs = [flush(code, x) if form.has("ftz") else x for x in parts]
        result = code.binary(operation, *(widen(code, x, "float") for x in inputs))
        return _finish(code, form, narrow(code, result, parts[0].type))

    return halves(code, form, one, *operands)


@_family("add", "d, a, b;", "9.7.4.1", half="{.rnd}{.ftz}{.sat}", bfloat="{.rnd}", rnd="rn")
def add(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Sum."""
    return _through_float(code, form, "fadd", a, b)


@_family("sub", "d, a, b;", "9.7.4.2", half="{.rnd}{.ftz}{.sat}", bfloat="{.rnd}", rnd="rn")
def sub(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Difference."""
    return _through_float(code, form, "fsub", a, b)


@_family("mul", "d, a, b;", "9.7.4.3", half="{.rnd}{.ftz}{.sat}", bfloat="{.rnd}", rnd="rn")
def mul(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Product."""
    return _through_float(code, form, "fmul", a, b)


def fused(code: Code, a: Value, b: Value, c: Value) -> Value:
    """Product and sum of halves in one rounding.

    Two f16 multiply exactly in float, and two bf16 in double (their exponents do not fit in a float), without
    underflow. The sum is rounded to odd there, with at least two more bits than the result has.
    """
    wide = "float" if a.type == "half" else "double"
    product = code.binary("fmul", widen(code, a, wide), widen(code, b, wide))
    return narrow(code, sum_to_odd(code, product, widen(code, c, wide)), a.type)


def _out_of_bounds(code: Code, x: Value) -> Value:
    """Whether a factor is the OOB-NaN, of either sign, which tensor copies write for elements outside the tensor.

    The manual names this value but does not print it. The authors of an independent simulator recorded 0x7ff7 from a
    GPU, for both formats. It has not been measured here.
    """
    magnitude = code.and_(bits_of(code, x), code.const("i16", 0x7FFF))
    return code.icmp("eq", magnitude, code.const("i16", 0x7FF7))


@_family("fma", "d, a, b, c;", "9.7.4.4", half=".rnd{.ftz}{.sat}", bfloat=".rnd", rnd="rn")
@_family("fma", "d, a, b, c;", "9.7.4.4", half=".rnd{.ftz}.relu", bfloat=".rnd.relu", rnd="rn")
def fma(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Product and sum in one rounding."""

    def one(*parts: Value) -> Value:
        inputs = [flush(code, x) if form.has("ftz") else x for x in parts]
        return _finish(code, form, fused(code, *inputs))

    return halves(code, form, one, a, b, c)


@_family("fma", "d, a, b, c;", "9.7.4.4", half=".rnd.oob{.relu}", bfloat=".rnd.oob{.relu}", rnd="rn")
def fma_out_of_bounds(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Product and sum, or zero where a factor is the out-of-bounds NaN."""

    def one(*parts: Value) -> Value:
        outside = code.or_(_out_of_bounds(code, parts[0]), _out_of_bounds(code, parts[1]))
        return select_bits(code, outside, 0, _finish(code, form, fused(code, *parts)))

    return halves(code, form, one, a, b, c)


@_family("neg", "d, a;", "9.7.4.5", half="{.ftz}", bfloat="")
@_family("abs", "d, a;", "9.7.4.6", half="{.ftz}", bfloat="")
def with_other_sign(code: Code, form: Form, a: Value) -> Value:
    """The value with its sign inverted (neg) or cleared (abs)."""

    def one(x: Value) -> Value:
        bits, formats = bits_of(code, flush(code, x) if form.has("ftz") else x), FORMATS[x.type]
        if form.row.opcode == "neg":
            return float_of(code, code.xor(bits, code.const("i16", formats.sign)), x.type)
        return float_of(code, code.and_(bits, code.const("i16", formats.nan)), x.type)

    return halves(code, form, one, a)
