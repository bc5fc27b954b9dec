"""cvt to and from packed halves, tf32 and the 8-, 6- and 4-bit floats, and cvt.pack.

Source: PTX ISA, sections 9.7.9.21 (cvt), 9.7.9.22 (cvt.pack) and 5.2.3 "Alternate Floating-Point Data Formats"; the
8-bit formats are those of the Open Compute Project's OFP8 specification 1.0, the 6- and 4-bit ones those of its
Microscaling Formats specification 1.0.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa.convert import finish_half
from tilewright.simulate.isa.rounding import bits_of, float_of, is_nan, join, narrow, relu, select_bits, widen
from tilewright.simulate.isa.table import Form, Table

rows = Table()

_cvt = functools.partial(rows.row, section="9.7.9.21", cost="convert")
_pack = functools.partial(rows.row, section="9.7.9.22", fixed=1, cost="convert")


@dataclass(frozen=True)
class Small:
    """A small format with a sign: widths, greatest finite magnitude, and its NaN (`None` if it has none).

    `step` is the number of bits from one element to the next in a packed pair.
    """

    exponent: int
    fraction: int
    greatest: int
    nan: int | None
    step: int = 8

    @property
    def bias(self) -> int:
        """The exponent's bias."""
        return (1 << (self.exponent - 1)) - 1


SMALL = {
    "e4m3x2": Small(4, 3, 0x7E, 0x7F),
    "e5m2x2": Small(5, 2, 0x7B, 0x7F),
    "e2m3x2": Small(2, 3, 0x1F, None),
    "e3m2x2": Small(3, 2, 0x1F, None),
    "e2m1x2": Small(2, 1, 0x7, None, step=4),
}


@_cvt("cvt.frnd2{.relu}{.satfinite}.f16x2.f32 d, a, b;", types={"d": "f16x2", "a": "f32", "b": "f32"}, frnd2="rn rz")
@_cvt("cvt.frnd2{.relu}{.satfinite}.bf16x2.f32 d, a, b;", types={"d": "bf16x2", "a": "f32", "b": "f32"}, frnd2="rn rz")
def floats_to_halves(code: Code, form: Form, a: Value, b: Value) -> Value:
    """`a` to the upper half, `b` to the lower."""
    type_ = "half" if form.type_of("d") == "f16x2" else "bfloat"
    high, low = (bits_of(code, finish_half(code, form, narrow(code, x, type_, form["frnd2"]))) for x in (a, b))
    return join(code, low, high)


@_cvt("cvt.rna{.satfinite}.tf32.f32 d, a;", types={"d": "tf32", "a": "f32"})
@_cvt("cvt.frnd2{.satfinite}{.relu}.tf32.f32 d, a;", types={"d": "tf32", "a": "f32"}, frnd2="rn rz")
def float_to_tf32(code: Code, form: Form, a: Value) -> Value:
    """10 bits of fraction, the lower 13 zero; a NaN becomes canonical."""
    bits = bits_of(code, a)
    if form.has("rna"):  # to nearest, ties away from zero: half a unit more magnitude
        bits = code.add(bits, code.const("i32", 0x1000))
    elif form.has("rn"):
        last = code.and_(code.binary("lshr", bits, code.const("i32", 13)), code.const("i32", 1))
        bits = code.add(bits, code.add(last, code.const("i32", 0xFFF)))
    bits = code.and_(bits, code.const("i32", -0x2000))
    if form.has("satfinite"):
        sign = code.and_(bits, code.const("i32", 1 << 31))
        magnitude = code.and_(bits, code.const("i32", 0x7FFFFFFF))
        least = code.call("llvm.umin", "i32", magnitude, code.const("i32", 0x7F7FE000))
        bits = code.or_(sign, least)
    # The sum may carry a NaN out of its exponent, so a NaN is detected in the operand.
    result = select_bits(code, is_nan(code, a), 0x7FFFFFFF, float_of(code, bits, "float"))
    return bits_of(code, relu(code, result) if form.has("relu") else result)


def encode(code: Code, x: Value, small: Small, *, rectify: bool) -> Value:
    """A float as a small format's pattern in an i32: to nearest even, clamped to the greatest finite number."""
    magnitude = code.and_(bits_of(code, x), code.const("i32", 0x7FFFFFFF))
    shift = code.const("i32", 23 - small.fraction)
    last = code.and_(code.binary("lshr", magnitude, shift), code.const("i32", 1))
    half = code.const("i32", (1 << (22 - small.fraction)) - 1)
    rounded = code.binary("lshr", code.add(magnitude, code.add(last, half)), shift)
    normal = code.sub(rounded, code.const("i32", (127 - small.bias) << small.fraction))
    # Adding a float whose unit is the format's smallest number rounds to a multiple of that number, in the low bits.
    unit = code.float_const("float", 2.0 ** (1 - small.bias - small.fraction + 23))
    tiny = code.sub(bits_of(code, code.binary("fadd", float_of(code, magnitude, "float"), unit)), bits_of(code, unit))
    below = code.icmp("ult", magnitude, code.const("i32", (128 - small.bias) << 23))
    pattern = code.call("llvm.umin", "i32", code.select(below, tiny, normal), code.const("i32", small.greatest))
    sign = code.binary("lshr", bits_of(code, x), code.const("i32", 31))
    if rectify:
        pattern = code.select(code.icmp("ne", sign, code.const("i32", 0)), code.const("i32", 0), pattern)
    else:
        top = code.const("i32", small.exponent + small.fraction)
        pattern = code.or_(pattern, code.binary("shl", sign, top))
    nan = small.greatest if small.nan is None else small.nan
    return code.select(is_nan(code, x), code.const("i32", nan), pattern)


def _small_pair(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Two floats to a packed pair, `a` to the upper element."""
    small = SMALL[form["small"]]
    high, low = (encode(code, x, small, rectify=form.has("relu")) for x in (a, b))
    pair = code.or_(low, code.binary("shl", high, code.const("i32", small.step)))
    return code.cast("trunc", pair, f"i{2 * small.step}")


_EIGHT = "e4m3x2 e5m2x2 e2m3x2 e3m2x2"


@_cvt("cvt.rn.satfinite{.relu}.small.f32 d, a, b;", types={"d": "b16", "a": "f32", "b": "f32"}, small=_EIGHT)
@_cvt("cvt.rn.satfinite{.relu}.small.f32 d, a, b;", types={"d": "b8", "a": "f32", "b": "f32"}, small="e2m1x2")
def floats_to_small(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Two floats."""
    return _small_pair(code, form, a, b)


@_cvt("cvt.rn.satfinite{.relu}.small.f16x2 d, a;", types={"d": "b16", "a": "f16x2"}, small="e4m3x2 e5m2x2")
def halves_to_small(code: Code, form: Form, a: Value) -> Value:
    """Two packed halves."""
    high = code.cast("trunc", code.binary("lshr", a, code.const("i32", 16)), "i16")
    low = code.cast("trunc", a, "i16")
    upper, lower = (widen(code, float_of(code, x, "half"), "float") for x in (high, low))
    return _small_pair(code, form, upper, lower)


def decode(code: Code, pattern: Value, small: Small) -> Value:
    """A small format's pattern in an i32 as a half, which represents it exactly."""
    top = small.exponent + small.fraction
    magnitude = code.and_(pattern, code.const("i32", (1 << top) - 1))
    placed = float_of(code, code.binary("shl", magnitude, code.const("i32", 23 - small.fraction)), "float")
    value = code.binary("fmul", placed, code.float_const("float", 2.0 ** (127 - small.bias)))
    half = bits_of(code, narrow(code, value, "half"))
    if small.nan is not None:
        # In e5m2 the pattern after the greatest number is infinity; the code above gives 65536, which rounds to
        # infinity.
        has_infinity = small.greatest + 1 < small.nan
        first = small.greatest + (2 if has_infinity else 1)
        wrong = code.icmp("uge", magnitude, code.const("i32", first))
        half = code.select(wrong, code.const("i16", 0x7FFF), half)
        signed = code.and_(code.not_(wrong), code.icmp("ne", magnitude, pattern))
    else:
        signed = code.icmp("ne", magnitude, pattern)
    sign = code.select(signed, code.const("i16", 0x8000), code.const("i16", 0))
    return float_of(code, code.or_(half, sign), "half")


def _to_halves(code: Code, form: Form, a: Value) -> Value:
    """A packed pair of a small format to packed halves."""
    small = SMALL[form["small"]]
    wide = code.cast("zext", a, "i32")
    mask = code.const("i32", (1 << (1 + small.exponent + small.fraction)) - 1)
    parts = []
    for shift in (0, small.step):
        part = decode(code, code.and_(code.binary("lshr", wide, code.const("i32", shift)), mask), small)
        parts.append(bits_of(code, relu(code, part) if form.has("relu") else part))
    return join(code, *parts)


@_cvt("cvt.rn{.relu}.f16x2.small d, a;", types={"d": "f16x2", "a": "b16"}, small=_EIGHT)
@_cvt("cvt.rn{.relu}.f16x2.small d, a;", types={"d": "f16x2", "a": "b8"}, small="e2m1x2")
def small_to_halves(code: Code, form: Form, a: Value) -> Value:
    """Exact."""
    return _to_halves(code, form, a)


def _clamped(code: Code, a: Value, type_: str) -> Value:
    """An s32 limited to an integer type's range, its bits above that type's cleared."""
    bits = int(type_[1:])
    signed = type_[0] == "s"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    a = code.call("llvm.smax", "i32", a, code.const("i32", low))
    a = code.call("llvm.smin", "i32", a, code.const("i32", high))
    return code.and_(a, code.const("i32", (1 << bits) - 1))


@_pack("cvt.pack.sat.ctype.s32 d, a, b;", types={"d": "b32", "a": "s32", "b": "s32"}, ctype="u16 s16")
def pack(code: Code, form: Form, a: Value, b: Value) -> Value:
    """Two clamped integers, `a` above `b`."""
    bits = code.const("i32", int(form["ctype"][1:]))
    return code.or_(code.binary("shl", _clamped(code, a, form["ctype"]), bits), _clamped(code, b, form["ctype"]))


@_pack(
    "cvt.pack.sat.ctype.s32.b32 d, a, b, c;",
    types={"d": "b32", "a": "s32", "b": "s32", "c": "b32"},
    ctype="u2 s2 u4 s4 u8 s8",
)
def pack_onto(code: Code, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Two clamped integers below `c`, which is shifted up."""
    bits = int(form["ctype"][1:])
    return code.or_(pack(code, form, a, b), code.binary("shl", c, code.const("i32", 2 * bits)))
