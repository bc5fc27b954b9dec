"""cvt between integers and the binary float formats, in every pair.

A float becomes an integer clamped to the integer's range. A NaN becomes 0, or 2**(bits - 1) if the source is f64 or the
destination has 64 bits. A float destination is rounded once: where the computation needs an intermediate format (64-bit
integers, f64 to half), the first rounding is to odd. `.sat` clamps a float to [0, 1] before the rounding, which gives
the same result, because every format has 0 and 1.

Source: PTX ISA, section 9.7.9.21 "Data Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

import functools

from tilewright.simulate.code import Code, Value, element_type
from tilewright.simulate.isa.rounding import (
    FORMATS,
    bits_of,
    canonical,
    flush,
    narrow,
    relu,
    rounded,
    saturate,
    select_bits,
    sum_to_odd,
    widen,
)
from tilewright.simulate.isa.table import Form, Table

rows = Table()

_SECTION = "9.7.9.21"
_PAIR = {"d": "dtype", "a": "atype"}
INTEGERS = "u8 u16 u32 u64 s8 s16 s32 s64"
_DIRECTIONS = "rn rz rm rp"
_WHOLE = "rni rzi rmi rpi"

_cvt = functools.partial(rows.row, section=_SECTION, types=_PAIR, cost="convert")
_cvt_rounded = functools.partial(_cvt, frnd=_DIRECTIONS)
_cvt_whole = functools.partial(_cvt, irnd=_WHOLE)

#: Rounding to an integral value -> LLVM intrinsic.
_TO_WHOLE = {"rni": "llvm.roundeven", "rzi": "llvm.trunc", "rmi": "llvm.floor", "rpi": "llvm.ceil"}


def _range(type_: str) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    bits = int(type_[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)


@_cvt("cvt{.sat}.dtype.atype d, a;", dtype=INTEGERS, atype=INTEGERS, linear="cvt")
def integer_to_integer(code: Code, form: Form, a: Value) -> Value:
    """Truncated, or extended by the source's sign; with .sat clamped to the destination's range."""
    source, destination = form["atype"], form["dtype"]
    kind = source[0]
    if form.has("sat"):
        (low, high), (least, greatest) = _range(source), _range(destination)
        prefix = "llvm.s" if kind == "s" else "llvm.u"
        if least > low:
            a = code.call(f"{prefix}max", a.type, a, code.const(a.type, least))
        if greatest < high:
            a = code.call(f"{prefix}min", a.type, a, code.const(a.type, greatest))
    return code.resize(a, element_type(destination), signed=kind == "s")


@_cvt_whole("cvt.irnd{.sat}.dtype.atype d, a;", dtype=INTEGERS, atype="f16 bf16 f64")
@_cvt_whole("cvt.irnd{.ftz}{.sat}.dtype.atype d, a;", dtype=INTEGERS, atype="f32")
def float_to_integer(code: Code, form: Form, a: Value) -> Value:
    """Rounded to an integral value and clamped to the destination's range, with and without .sat."""
    x = flush(code, a) if form.has("ftz") else a
    x = widen(code, x, "double" if x.type == "double" else "float")
    whole = code.call(_TO_WHOLE[form["irnd"]], x.type, x)
    type_, signed = element_type(form["dtype"]), form["dtype"][0] == "s"
    function = "llvm.fptosi.sat" if signed else "llvm.fptoui.sat"
    result = code.call(function, type_, whole, suffixes=[type_, whole.type])
    if form["atype"] != "f64" and not form["dtype"].endswith("64"):
        return result
    wrong = code.const(type_, 1 << (result.bits - 1))
    return code.select(code.fcmp("uno", x, x), wrong, result)


def _exact_or_odd(code: Code, a: Value, *, signed: bool) -> Value:
    """An integer in double: exactly up to 32 bits, rounded to odd for 64."""
    if a.bits <= 32:
        return code.cast("sitofp" if signed else "uitofp", a, "double")
    return sum_to_odd(code, *_halves(code, a, signed=signed))


def _halves(code: Code, a: Value, *, signed: bool) -> tuple[Value, Value]:
    """Two doubles whose sum is a 64-bit integer."""
    shifted = code.binary("ashr" if signed else "lshr", a, code.const("i64", 32))
    high = code.cast("trunc", shifted, "i32")
    upper = code.cast("sitofp" if signed else "uitofp", high, "double")
    lower = code.cast("uitofp", code.cast("trunc", a, "i32"), "double")
    return code.binary("fmul", upper, code.float_const("double", 2.0**32)), lower


@_cvt_rounded("cvt.frnd{.sat}.dtype.atype d, a;", dtype="f16 bf16 f64", atype=INTEGERS)
@_cvt_rounded("cvt.frnd{.ftz}{.sat}.dtype.atype d, a;", dtype="f32", atype=INTEGERS)
def integer_to_float(code: Code, form: Form, a: Value) -> Value:
    """Rounded once. An integer is never subnormal, so .ftz changes nothing."""
    type_, mode, signed = element_type(form["dtype"]), form["frnd"], form["atype"][0] == "s"
    if type_ in ("float", "double") and mode == "rn":
        result = code.cast("sitofp" if signed else "uitofp", a, type_)
    elif type_ == "double":
        exact = a.bits <= 32
        result = (
            _exact_or_odd(code, a, signed=signed)
            if exact
            else rounded(code, "add", mode, *_halves(code, a, signed=signed))
        )
    else:
        x = _exact_or_odd(code, a, signed=signed)
        return narrow(code, saturate(code, x) if form.has("sat") else x, type_, mode)
    return saturate(code, result) if form.has("sat") else result


@_cvt_rounded("cvt.frnd{.ftz}{.sat}.dtype.atype d, a;", dtype="f16 bf16", atype="f32")
@_cvt_rounded("cvt.frnd{.ftz}{.sat}.dtype.atype d, a;", dtype="f32", atype="f64")
@_cvt_rounded("cvt.frnd{.sat}.dtype.atype d, a;", dtype="f16 bf16", atype="f64")
@_cvt_rounded("cvt{.frnd}{.sat}.dtype.atype d, a;", dtype="bf16", atype="f16")
@_cvt_rounded("cvt{.frnd}{.sat}.dtype.atype d, a;", dtype="f16", atype="bf16")
def float_to_narrower(code: Code, form: Form, a: Value) -> Value:
    """Rounded once, by default to nearest, to a format that lacks bits of the source; a half NaN is canonical."""
    type_ = element_type(form["dtype"])
    x = flush(code, a) if form.has("ftz") and a.type == "float" else a
    x = widen(code, x, "double" if x.type == "double" else "float")
    if form.has("sat"):
        x = saturate(code, x)
    result = narrow(code, x, type_, form["frnd"] or "rn")
    return flush(code, result) if form.has("ftz") and type_ == "float" else result


@_cvt("cvt{.ftz}{.sat}.dtype.atype d, a;", dtype="f32", atype="f16 bf16")
@_cvt("cvt{.sat}.dtype.atype d, a;", dtype="f64", atype="f16 bf16")
@_cvt("cvt{.ftz}{.sat}.dtype.atype d, a;", dtype="f64", atype="f32")
def float_to_wider(code: Code, form: Form, a: Value) -> Value:
    """Exact; .ftz flushes a subnormal float."""
    ftz = form.has("ftz")
    x = widen(code, flush(code, a) if ftz and a.type == "float" else a, element_type(form["dtype"]))
    if ftz and x.type == "float":
        x = flush(code, x)
    return saturate(code, x) if form.has("sat") else x


def _to_same(code: Code, form: Form, a: Value) -> Value:
    """The same format: rounded to an integral value, flushed and clamped as the form says."""
    x = flush(code, a) if form.has("ftz") else a
    if not form["irnd"] and not form.has("sat"):
        return x
    x = widen(code, x, "double" if x.type == "double" else "float")
    if form["irnd"]:
        x = code.call(_TO_WHOLE[form["irnd"]], x.type, x)
    return narrow(code, saturate(code, x) if form.has("sat") else x, a.type)


@_cvt_whole("cvt{.irnd}{.ftz}{.sat}.f32.f32 d, a;", types={"d": "f32", "a": "f32"})
def float_to_same(code: Code, form: Form, a: Value) -> Value:
    """Float to float."""
    return _to_same(code, form, a)


@_cvt_whole("cvt{.irnd}{.sat}.f64.f64 d, a;", types={"d": "f64", "a": "f64"})
@_cvt_whole("cvt{.irnd}{.sat}.f16.f16 d, a;", types={"d": "f16", "a": "f16"})
@_cvt_whole("cvt{.irnd}{.sat}.bf16.bf16 d, a;", types={"d": "bf16", "a": "bf16"})
def other_to_same(code: Code, form: Form, a: Value) -> Value:
    """Double to double, half to half."""
    return _to_same(code, form, a)


def finish_half(code: Code, form: Form, x: Value) -> Value:
    """A half result under .satfinite (an infinity becomes the greatest finite number) and .relu."""
    if form.has("satfinite"):
        format_ = FORMATS[x.type]
        bits = bits_of(code, x)
        for sign in (0, format_.sign):
            infinite = code.icmp("eq", bits, code.const(bits.type, sign | format_.infinity))
            x = select_bits(code, infinite, (sign | format_.infinity) - 1, x)
    return relu(code, x) if form.has("relu") else canonical(code, x)


@_cvt(
    "cvt.frnd2.relu{.satfinite}.dtype.f32 d, a;",
    "cvt.frnd2.satfinite.dtype.f32 d, a;",
    types={"d": "dtype", "a": "f32"},
    frnd2="rn rz",
    dtype="f16 bf16",
)
def float_to_half(code: Code, form: Form, a: Value) -> Value:
    """Rounded to half, clamped."""
    return finish_half(code, form, narrow(code, a, element_type(form["dtype"]), form["frnd2"]))
