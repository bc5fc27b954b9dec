"""The approximate functions: div, rcp, sqrt, rsqrt, sin, cos, lg2, ex2 and tanh.

The manual bounds their error and leaves the bits open. Here each is computed in a wider format, with operations that
IEEE 754 defines exactly and without a host library, and then rounded once. So the bits are the same on every host,
nearly always those of the correctly rounded result, and always within the manual's bound. The rows' notes state the
bounds, in units of the last place.

Source: PTX ISA, sections 9.7.3.8, 9.7.3.13 to 9.7.3.22 and 9.7.4.9, 9.7.4.10.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa import elementary
from tilewright.simulate.isa.half import halves
from tilewright.simulate.isa.rounding import bits_of, canonical, float_of, flush, narrow, one_bits, rounded, widen
from tilewright.simulate.isa.table import Form, Table

rows = Table()

_F32 = dict.fromkeys("dab", "f32")
_F64 = dict.fromkeys("da", "f64")
_NEARLY = "error below 0.5001 ulp"
_quick = functools.partial(rows.row, types=_F32, cost="float")
_double = functools.partial(rows.row, types=_F64, cost="double")
_single = functools.partial(rows.row, types=_F32, cost="transcendental")
_half = functools.partial(rows.row, cost="transcendental")
_TURNS = "manual: absolute 2**-20.5 in [-pi, pi]"
_UPPER = "of the upper word of a, to 20 bits of fraction, rounded to nearest; the lower word is zero"


def _one(code: Code, x: Value) -> Value:
    """1.0 in the type of `x`."""
    return code.float_bits(x.type, one_bits(x.type))


def _flushing(code: Code, form: Form, meaning: Callable[..., Value], *operands: Value) -> Value:
    """Apply a meaning, with .ftz flushing before and after it."""
    if not form.has("ftz"):
        return canonical(code, meaning(*operands))
    return canonical(code, flush(code, meaning(*(flush(code, x) for x in operands))))


@_quick("div.full{.ftz}.f32 d, a, b;", section="9.7.3.8", fixed=1, note="error 0.5 ulp; manual: 2")
def div_full(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Quotient."""
    return _flushing(code, form, lambda x, y: code.binary("fdiv", x, y), a, b)


@_quick(
    "div.approx{.ftz}.f32 d, a, b;",
    section="9.7.3.8",
    note="error 0.5 ulp for |b| up to 2**126 (manual: 2); above that 0, or NaN for an infinite a, as in the manual",
)
def div_approx(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Quotient; zero if the divisor's reciprocal is subnormal."""

    def meaning(x: Value, y: Value) -> Value:
        magnitude = code.call("llvm.fabs", "float", y)
        large = code.fcmp("ogt", magnitude, code.float_const("float", 2.0**126))
        finite = code.fcmp("olt", magnitude, code.float_bits("float", 0x7F800000))
        nothing = code.call("llvm.copysign", "float", code.zero(y), y)
        return code.select(code.and_(large, finite), code.binary("fmul", x, nothing), code.binary("fdiv", x, y))

    return _flushing(code, form, meaning, a, b)


@_quick("rcp.approx{.ftz}.f32 d, a;", section="9.7.3.13", note="error 0.5 ulp; manual: 1")
def rcp(code: Code, form: Form, a: Value) -> Value:
    """Reciprocal."""
    return _flushing(code, form, lambda x: code.binary("fdiv", _one(code, x), x), a)


@_quick("sqrt.approx{.ftz}.f32 d, a;", section="9.7.3.15", note="error 0.5 ulp; manual: 2**-23")
def sqrt(code: Code, form: Form, a: Value) -> Value:
    """Square root."""
    return _flushing(code, form, lambda x: code.call("llvm.sqrt", "float", x), a)


def _reciprocal_root(code: Code, x: Value) -> Value:
    """1 / sqrt(x) in double."""
    return rounded(code, "div", "rn", _one(code, x), rounded(code, "sqrt", "rn", x))


def _upper_word(code: Code, meaning: Callable[[Value], Value], a: Value) -> Value:
    """A function of the upper 32 bits of a double, to the upper 32 bits: 20 bits of fraction, to nearest."""
    upper = code.const("i64", 0xFFFFFFFF00000000)
    result = meaning(flush(code, float_of(code, code.and_(bits_of(code, a), upper), "double")))
    bits = code.add(bits_of(code, result), code.const("i64", 0x80000000))
    return canonical_upper(code, flush(code, float_of(code, code.and_(bits, upper), "double")), result)


def canonical_upper(code: Code, x: Value, result: Value) -> Value:
    """`x`, or, where the result is a NaN, the NaN with a lower word of zero."""
    nan = code.float_bits("double", 0x7FFFFFFF00000000)
    return code.select(code.fcmp("uno", result, result), nan, x)


@_double("rcp.approx.ftz.f64 d, a;", section="9.7.3.14", note=_UPPER)
def rcp_upper(code: Code, form: Form, a: Value) -> Value:
    """Gross reciprocal."""
    return _upper_word(code, lambda x: code.binary("fdiv", _one(code, x), x), a)


@_double("rsqrt.approx.ftz.f64 d, a;", section="9.7.3.17", note=_UPPER)
def rsqrt_upper(code: Code, form: Form, a: Value) -> Value:
    """Coarse reciprocal of the square root."""
    return _upper_word(code, lambda x: _reciprocal_root(code, x), a)


@_double("rsqrt.approx.f64 d, a;", section="9.7.3.16", note="error below 1.5 ulp")
def rsqrt_f64(code: Code, form: Form, a: Value) -> Value:
    """Reciprocal of the square root of a double."""
    return _flushing(code, form, lambda x: _reciprocal_root(code, x), a)


def _in_double(code: Code, form: Form, a: Value, function: Callable[[Code, Value], Value]) -> Value:
    """A function computed in double and rounded once to the operand's type."""

    def meaning(x: Value) -> Value:
        return narrow(code, function(code, widen(code, x, "double")), x.type)

    return _flushing(code, form, meaning, a)


#: Functions of one float: name, section, function in double, and the error in its note.
_BY_DOUBLE: tuple[tuple[str, str, Callable[[Code, Value], Value], str], ...] = (
    ("rsqrt", "9.7.3.16", _reciprocal_root, "; manual: relative 2**-22.9"),
    ("sin", "9.7.3.18", elementary.sine, f" for |a| < 2**32, 0 from 2**48 on; {_TURNS}"),
    ("cos", "9.7.3.19", elementary.cosine, f" for |a| < 2**32, 1 from 2**48 on; {_TURNS}"),
    ("lg2", "9.7.3.20", elementary.logarithm, "; manual: absolute 2**-22 in [0.5, 2], else relative 2**-22"),
)
for _name, _section, _function, _error in _BY_DOUBLE:
    _single(f"{_name}.approx{{.ftz}}.f32 d, a;", section=_section, note=f"{_NEARLY}{_error}")(
        functools.partial(_in_double, function=_function)
    )


@_single("ex2.approx{.ftz}.f32 d, a;", section="9.7.3.21", note=f"{_NEARLY}; manual: relative 2**-22")
@_half("ex2.approx.type d, a;", section="9.7.4.10", type="f16 f16x2", note=f"{_NEARLY}; manual: relative 2**-9.9")
@_half("ex2.approx.ftz.type d, a;", section="9.7.4.10", type="bf16 bf16x2", note=f"{_NEARLY}; manual: relative 2**-7")
def ex2(code: Code, form: Form, a: Value) -> Value:
    """2 to a power."""
    return halves(code, form, lambda x: _in_double(code, form, x, elementary.power_of_two), a)


@_single("tanh.approx.f32 d, a;", section="9.7.3.22", note=f"{_NEARLY}; manual: relative 2**-11")
@_half(
    "tanh.approx.type d, a;",
    section="9.7.4.9",
    type="f16 f16x2 bf16 bf16x2",
    note=f"{_NEARLY}; manual: absolute 2**-10.987 (f16), 2**-8 (bf16)",
)
def tanh(code: Code, form: Form, a: Value) -> Value:
    """Hyperbolic tangent."""
    return halves(code, form, lambda x: _in_double(code, form, x, elementary.hyperbolic_tangent), a)
