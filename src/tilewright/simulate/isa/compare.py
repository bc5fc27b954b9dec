"""Comparison and selection.

Source: PTX ISA, sections 9.7.6 (Comparison and Selection), 9.7.7 (Half Precision Comparison) and 9.7.3.1 (testp).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.simulate.code import Code, Value, element_type
from tilewright.simulate.isa.packed import join, piece
from tilewright.simulate.isa.rounding import widen
from tilewright.simulate.isa.table import Form, Meaning, Table

rows = Table()

#: LLVM predicates. Source: PTX ISA, section 9.3.1, Comparisons: eq ... ge are false for NaN, equ ... geu true.
_SIGNED = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"} | {
    "lo": "ult",
    "ls": "ule",
    "hi": "ugt",
    "hs": "uge",
}
_FLOAT = (
    {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
    | {"equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge"}
    | {"num": "ord", "nan": "uno"}
)
#: Exponents of the least normal numbers.
_LEAST_NORMAL = {"half": -14, "float": -126}

_FLOAT_OPS = " ".join(_FLOAT)
_UNSIGNED_OPS = " ".join(_UNSIGNED)
_SIGNED_OPS = " ".join(_SIGNED)
_PLAIN = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"


def _flushed(code: Code, a: Value) -> Value:
    """Zero for a subnormal number; zeros of both signs compare equal."""
    least = code.float_const(a.type, 2.0 ** _LEAST_NORMAL[a.type])
    small = code.fcmp("olt", code.call("llvm.fabs", a.type, a), least)
    return code.select(small, code.zero(a), a)


def _holds(code: Code, form: Form, ptx_type: str, a: Value, b: Value) -> Value:
    """Whether `a CmpOp b`."""
    if ptx_type[0] == "u":
        return code.icmp(_UNSIGNED[form["CmpOp"]], a, b)
    if ptx_type[0] in "sb" and not ptx_type.startswith("bf"):
        return code.icmp(_SIGNED[form["CmpOp"]], a, b)
    if form.has("ftz"):
        a, b = _flushed(code, a), _flushed(code, b)
    if a.bits == 16:
        a, b = widen(code, a, "float"), widen(code, b, "float")
    return code.fcmp(_FLOAT[form["CmpOp"]], a, b)


def _holds_by_half(code: Code, form: Form, ptx_type: str, a: Value, b: Value) -> list[Value]:
    """The comparisons of the low and of the high halves of packed operands."""
    element = element_type(ptx_type.removesuffix("x2"))
    results = []
    for low_bit in (0, 16):
        halves = (code.cast("bitcast", piece(code, v, low_bit, 16), element) for v in (a, b))
        results.append(_holds(code, form, ptx_type.removesuffix("x2"), *halves))
    return results


def _combined(code: Code, form: Form, truth: Value, more: tuple[Value, ...]) -> Value:
    """BoolOp(truth, c), or truth where the form has no BoolOp."""
    return code.binary(form["BoolOp"], truth, more[0]) if more else truth


def _both(head: str, tail: str, **row: Any) -> Callable[[Meaning], Meaning]:
    """Register a comparison twice: alone, and combined with a predicate by a BoolOp."""
    plain = rows.row(f"{head}{tail};", **row)
    combined = rows.row(f"{head}.BoolOp{tail}, {{!}}c;", BoolOp="and or xor", **row)

    def register(emit: Meaning) -> Meaning:
        return combined(plain(emit))

    return register


# -- setp ---------------------------------------------------------------------------------------------------------

_P = {"p": "pred", "q": "pred", "c": "pred"}
_SETP = ".type p{|q}, a, b"


@_both("setp.CmpOp", _SETP, section="9.7.6.2", types=_P, CmpOp="eq ne", type="b16 b32 b64")
@_both("setp.CmpOp", _SETP, section="9.7.6.2", types=_P, CmpOp=_UNSIGNED_OPS, type="u16 u32 u64")
@_both("setp.CmpOp", _SETP, section="9.7.6.2", types=_P, CmpOp=_SIGNED_OPS, type="s16 s32 s64")
@_both("setp.CmpOp", "{.ftz}" + _SETP, section="9.7.6.2", types=_P, CmpOp=_FLOAT_OPS, type="f32")
@_both("setp.CmpOp", _SETP, section="9.7.6.2", types=_P, CmpOp=_FLOAT_OPS, type="f64")
@_both("setp.CmpOp", "{.ftz}.type p, a, b", section="9.7.7.2", types=_P, CmpOp=_FLOAT_OPS, type="f16")
@_both("setp.CmpOp", ".type p, a, b", section="9.7.7.2", types=_P, CmpOp=_FLOAT_OPS, type="bf16")
def setp(code: Code, form: Form, a: Value, b: Value, *c: Value) -> tuple[Value, Value]:
    """Compare: p = BoolOp(a CmpOp b, c), q = BoolOp(not (a CmpOp b), c)."""
    truth = _holds(code, form, form["type"], a, b)
    return _combined(code, form, truth, c), _combined(code, form, code.not_(truth), c)


@_both("setp.CmpOp", "{.ftz}.type p|q, a, b", section="9.7.7.2", types=_P, CmpOp=_FLOAT_OPS, type="f16x2")
@_both("setp.CmpOp", ".type p|q, a, b", section="9.7.7.2", types=_P, CmpOp=_FLOAT_OPS, type="bf16x2")
def setp_packed(code: Code, form: Form, a: Value, b: Value, *c: Value) -> tuple[Value, Value]:
    """Compare the low halves into p and the high halves into q."""
    low, high = _holds_by_half(code, form, form["type"], a, b)
    return _combined(code, form, low, c), _combined(code, form, high, c)


# -- set ----------------------------------------------------------------------------------------------------------

_D = {"d": "dtype", "a": "stype", "b": "stype", "c": "pred"}
_SET = ".dtype.stype d, a, b"
_INTO = "u32 s32 f32 f16 bf16"
_FROM_HALF = "u16 s16 u32 s32"


def _truth_as(code: Code, truth: Value, ptx_type: str) -> Value:
    """True as 1.0 in a float type, as all ones in an integer type."""
    element = element_type(ptx_type)
    if ptx_type[0] in "us":
        return code.cast("sext", truth, element)
    one = code.cast("bitcast", code.const("i16", 0x3F80), element) if element == "bfloat" else None
    return code.select(truth, one or code.float_const(element, 1.0), Value("0.0", element))


@_both("set.CmpOp", _SET, section="9.7.6.1", types=_D, CmpOp="eq ne", dtype=_INTO, stype="b16 b32 b64")
@_both("set.CmpOp", _SET, section="9.7.6.1", types=_D, CmpOp=_UNSIGNED_OPS, dtype=_INTO, stype="u16 u32 u64")
@_both("set.CmpOp", _SET, section="9.7.6.1", types=_D, CmpOp=_SIGNED_OPS, dtype=_INTO, stype="s16 s32 s64")
@_both(
    "set.CmpOp", "{.ftz}" + _SET, section="9.7.6.1", types=_D, CmpOp=_FLOAT_OPS, dtype="u32 s32 f32 f16", stype="f32"
)
@_both("set.CmpOp", _SET, section="9.7.7.1", types=_D, CmpOp=_FLOAT_OPS, dtype="bf16", stype="f32")
@_both("set.CmpOp", _SET, section="9.7.6.1", types=_D, CmpOp=_FLOAT_OPS, dtype=_INTO, stype="f64")
@_both(
    "set.CmpOp", "{.ftz}" + _SET, section="9.7.7.1", types=_D, CmpOp=_FLOAT_OPS, dtype=_FROM_HALF + " f16", stype="f16"
)
@_both("set.CmpOp", _SET, section="9.7.7.1", types=_D, CmpOp=_FLOAT_OPS, dtype=_FROM_HALF + " bf16", stype="bf16")
def set_(code: Code, form: Form, a: Value, b: Value, *c: Value) -> Value:
    """Compare into a register: 1.0 or all ones where BoolOp(a CmpOp b, c), else 0."""
    return _truth_as(code, _combined(code, form, _holds(code, form, form["stype"], a, b), c), form["dtype"])


@_both(
    "set.CmpOp", "{.ftz}" + _SET, section="9.7.7.1", types=_D, CmpOp=_FLOAT_OPS, dtype="f16x2 u32 s32", stype="f16x2"
)
@_both("set.CmpOp", _SET, section="9.7.7.1", types=_D, CmpOp=_FLOAT_OPS, dtype="bf16x2 u32 s32", stype="bf16x2")
def set_packed(code: Code, form: Form, a: Value, b: Value, *c: Value) -> Value:
    """Compare both halves: 1.0 or 0xffff in each."""
    target = form["dtype"].removesuffix("x2").replace("32", "16")
    halves = [
        code.cast("bitcast", _truth_as(code, _combined(code, form, truth, c), target), "i16")
        for truth in _holds_by_half(code, form, form["stype"], a, b)
    ]
    return join(code, halves, "i32")


# -- selection ----------------------------------------------------------------------------------------------------


@rows.row("selp.type d, a, b, c;", section="9.7.6.3", types={"c": "pred"}, type=_PLAIN)
def selp(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Choose a where c is true, else b."""
    return code.select(c, a, b)


_SLCT = {"d": "dtype", "a": "dtype", "b": "dtype", "c": "ctype"}


@rows.row("slct.dtype.ctype d, a, b, c;", section="9.7.6.4", dtype=_PLAIN, ctype="s32", types=_SLCT)
@rows.row("slct{.ftz}.dtype.ctype d, a, b, c;", section="9.7.6.4", dtype=_PLAIN, ctype="f32", types=_SLCT)
def slct(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Choose a where c >= 0, else b; b for NaN."""
    if form["ctype"] == "s32":
        return code.select(code.icmp("sge", c, code.const("i32", 0)), a, b)
    return code.select(code.fcmp("oge", _flushed(code, c) if form.has("ftz") else c, code.zero(c)), a, b)


#: Bits of llvm.is.fpclass. Source: LLVM Language Reference, 'llvm.is.fpclass'. Zeros count as normal in PTX.
_NAN, _INFINITE, _NORMAL, _SUBNORMAL, _ZERO = 0x003, 0x204, 0x108, 0x090, 0x060
_CLASSES = {
    "finite": _NORMAL | _SUBNORMAL | _ZERO,
    "infinite": _INFINITE,
    "number": _NORMAL | _SUBNORMAL | _ZERO | _INFINITE,
    "notanumber": _NAN,
    "normal": _NORMAL | _ZERO,
    "subnormal": _SUBNORMAL,
}


@rows.row(
    "testp.op.type p, a;", section="9.7.3.1", types={"p": "pred"}, op=" ".join(_CLASSES), type="f32 f64", cost="float"
)
def testp(code: Code, form: Form, a: Value) -> Value:
    """Whether a float belongs to a class."""
    return code.call("llvm.is.fpclass", "i1", a, suffixes=[a.type], flags=f"i32 {_CLASSES[form['op']]}")
