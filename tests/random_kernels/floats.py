"""IEEE 754 in exact fractions: the bits that a float instruction must give, in each rounding mode."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Format:
    """A binary format: bits in all, bits of precision with the hidden one, least exponent of a normal number."""

    bits: int
    precision: int
    least: int
    code: str  #: of `struct`, for the float and for the integer of its size
    word: str

    @property
    def infinity(self) -> int:
        return ((1 << (self.bits - self.precision)) - 1) << (self.precision - 1)

    @property
    def nan(self) -> int:
        return (1 << (self.bits - 1)) - 1


FORMATS = {
    "f16": Format(16, 11, -14, "<e", "<H"),
    "f32": Format(32, 24, -126, "<f", "<I"),
    "f64": Format(64, 53, -1022, "<d", "<Q"),
}


def decoded(bits: int, type_: str) -> float:
    """The number; all three formats are exact in Python's float."""
    form = FORMATS[type_]
    value: float = struct.unpack(form.code, struct.pack(form.word, bits))[0]
    return value


def negative(x: float) -> bool:
    return math.copysign(1, x) < 0


def rounded(exact: Fraction, below_zero: bool, type_: str, mode: str) -> int:
    """Bits of a number rounded to nearest even (rn), to zero (rz), down (rm) or up (rp); a zero has the sign given."""
    form = FORMATS[type_]
    if exact:
        below_zero = exact < 0
    sign = int(below_zero) << (form.bits - 1)
    if not exact:
        return sign
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, form.least)
    units = size / Fraction(2) ** (exponent - form.precision + 1)
    whole, rest = divmod(units.numerator, units.denominator)
    away = {"rn": 2 * rest + (whole & 1) > units.denominator, "rz": False, "rm": below_zero, "rp": not below_zero}[mode]
    found = ((exponent - form.least) << (form.precision - 1)) + whole + (rest > 0 and away)
    if found >= form.infinity:
        stays = {"rn": False, "rz": True, "rm": not below_zero, "rp": below_zero}[mode]
        found = form.infinity - stays
    return sign | found


def of_float(x: float, type_: str, mode: str = "rn") -> int:
    """Bits of a Python float, or of an infinity or NaN, in a format."""
    form = FORMATS[type_]
    if math.isnan(x):
        return form.nan
    if math.isinf(x):
        return form.infinity | (int(x < 0) << (form.bits - 1))
    return rounded(Fraction(x), negative(x), type_, mode)


def multiply_add(a: float, b: float, c: float, type_: str, mode: str) -> int:
    """a * b + c, rounded once."""
    if any(map(math.isnan, (a, b, c))) or (math.isinf(a) and b == 0) or (math.isinf(b) and a == 0):
        return FORMATS[type_].nan
    minus = negative(a) != negative(b)
    if math.isinf(a) or math.isinf(b):
        if math.isinf(c) and negative(c) != minus:
            return FORMATS[type_].nan
        return of_float(-math.inf if minus else math.inf, type_)
    if math.isinf(c):
        return of_float(c, type_)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    zeros = a * b == 0 == c and (a == 0 or b == 0)
    return rounded(exact, minus if zeros and minus == negative(c) else mode == "rm", type_, mode)


def multiplied(a: float, b: float, type_: str, mode: str) -> int:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b):
        return of_float(a * b, type_)
    return rounded(Fraction(a) * Fraction(b), negative(a) != negative(b), type_, mode)


def divided(a: float, b: float, type_: str, mode: str) -> int:
    minus = negative(a) != negative(b)
    if math.isnan(a) or math.isnan(b) or (a == 0 == b) or (math.isinf(a) and math.isinf(b)):
        return FORMATS[type_].nan
    if math.isinf(a) or b == 0:
        return of_float(-math.inf if minus else math.inf, type_)
    if math.isinf(b):
        return of_float(-0.0 if minus else 0.0, type_)
    return rounded(Fraction(a) / Fraction(b), minus, type_, mode)


def flushed(bits: int, type_: str) -> int:
    """The same, or for a subnormal number a zero of its sign."""
    form = FORMATS[type_]
    top = 1 << (form.bits - 1)
    return bits & top if bits & (top - 1) < 1 << (form.precision - 1) else bits


def saturated(bits: int, type_: str) -> int:
    """Clamped to [0, 1]; a NaN becomes 0."""
    x = decoded(bits, type_)
    return of_float(1.0, type_) if x > 1 else bits if x > 0 else 0


def to_integer(x: float, type_: str, mode: str) -> int:
    """A finite number as an integer: to nearest even (rni), to zero (rzi), down (rmi), up (rpi); then clamped."""
    bits, signed = int(type_[1:]), type_[0] == "s"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if math.isinf(x):
        return high if x > 0 else low
    whole = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode](Fraction(x))
    return min(max(whole, low), high)
