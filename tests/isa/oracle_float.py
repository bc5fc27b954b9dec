"""Scalar meanings of the float instructions in plain Python: exact rationals and one rounding function.

Numbers are decoded from bit patterns to (sign, magnitude), the magnitude a Fraction, or "inf" or "nan"; results are
rounded once. Nothing here knows how the emitter works.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

Magnitude = Fraction | str


class Format(NamedTuple):
    """Widths of a binary format's exponent and fraction."""

    exponent: int
    fraction: int

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def least(self) -> int:
        """Exponent of the smallest normal number."""
        return 2 - (1 << (self.exponent - 1))


FORMATS = {
    "f16": Format(5, 10),
    "bf16": Format(8, 7),
    "f32": Format(8, 23),
    "f64": Format(11, 52),
}


class AnyNan:
    """Equal to every NaN of a format, for results whose payload the manual leaves open."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        format_ = FORMATS[self.name]
        return isinstance(other, int) and (other & (format_.sign - 1)) > format_.infinity

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"a NaN of {self.name}"


class Pair:
    """Two halves of a packed result, each a pattern or an AnyNan."""

    def __init__(self, low: object, high: object, bits: int) -> None:
        self.low, self.high, self.bits = low, high, bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and (self.low, self.high) == (other & ((1 << self.bits) - 1), other >> self.bits)

    def __hash__(self) -> int:
        return hash((self.low, self.high))

    def __repr__(self) -> str:
        return f"({self.low}, {self.high})"


def canonical(name: str) -> int:
    """The NaN whose bits are all ones but the sign."""
    return FORMATS[name].sign - 1


def power(exponent: int) -> Fraction:
    """2 to an integer power, exactly."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


@functools.lru_cache(1 << 17)
def decode(name: str, pattern: int) -> tuple[int, Magnitude]:
    """(sign bit, magnitude) of a bit pattern."""
    format_ = FORMATS[name]
    sign, rest = divmod(pattern, format_.sign)
    exponent, fraction = divmod(rest, 1 << format_.fraction)
    if exponent == (1 << format_.exponent) - 1:
        return sign, "nan" if fraction else "inf"
    if exponent == 0:
        return sign, fraction * power(format_.least - format_.fraction)
    return sign, ((1 << format_.fraction) + fraction) * power(exponent - 1 + format_.least - format_.fraction)


def is_nan(name: str, pattern: int) -> bool:
    return pattern & (FORMATS[name].sign - 1) > FORMATS[name].infinity


def signed(sign: int, magnitude: Fraction) -> Fraction:
    return -magnitude if sign else magnitude


def binary_exponent(value: Fraction) -> int:
    """Floor of log2 of a positive rational."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if power(guess) <= value else guess - 1


def to_integer(value: Fraction, mode: str, *, negative: bool = False) -> int:
    """A non-negative rational to an integer; `negative` says that it stands for its opposite."""
    return _quotient(value.numerator, value.denominator, mode, negative)


def _quotient(numerator: int, denominator: int, mode: str, negative: bool) -> int:
    whole, rest = divmod(numerator, denominator)
    twice = 2 * rest - denominator
    if mode in ("rn", "rni"):
        return whole + (twice > 0 or (twice == 0 and whole % 2 == 1))
    if mode == "rna":
        return whole + (twice >= 0)
    away = {"z": False, "m": negative, "p": not negative}[mode[1]]
    return whole + (away and rest != 0)


def encode(name: str, sign: int, magnitude: Magnitude, mode: str = "rn") -> int:
    """The bit pattern of a magnitude in one rounding."""
    if magnitude == "nan":
        return canonical(name)
    if isinstance(magnitude, str):
        return (FORMATS[name].sign if sign else 0) | FORMATS[name].infinity
    return _encode(name, sign, magnitude.numerator, magnitude.denominator, mode)


def _encode(name: str, sign: int, numerator: int, denominator: int, mode: str) -> int:
    """The same of a ratio, whose integers are used as they are: lowest terms take most of an oracle's time."""
    format_ = FORMATS[name]
    top = format_.sign if sign else 0
    if numerator == 0:
        return top
    exponent = numerator.bit_length() - denominator.bit_length()
    up, down = max(-exponent, 0), max(exponent, 0)
    exponent = max(exponent - (numerator << up < denominator << down), format_.least)
    unit = exponent - format_.fraction
    up, down = max(-unit, 0), max(unit, 0)
    steps = _quotient(numerator << up, denominator << down, mode, bool(sign))
    pattern = ((exponent - format_.least) << format_.fraction) + steps
    if pattern >= format_.infinity:
        to_infinity = mode in ("rn", "rm" if sign else "rp")
        pattern = format_.infinity if to_infinity else format_.infinity - 1
    return top | pattern


def flushed(name: str, pattern: int) -> int:
    """Subnormal patterns become zeros of the same sign."""
    format_ = FORMATS[name]
    return pattern & format_.sign if not pattern & format_.infinity else pattern


def saturated(name: str, pattern: object) -> object:
    """Clamp to [0, 1]; NaN and everything with a sign to +0."""
    if isinstance(pattern, AnyNan):
        return 0
    assert isinstance(pattern, int)
    one = encode(name, 0, Fraction(1))  # patterns of positive numbers are in their order
    return 0 if pattern & FORMATS[name].sign or is_nan(name, pattern) else min(pattern, one)


def rectified(name: str, pattern: object) -> object:
    """Negative results, and -0, to +0; NaN to the canonical one."""
    if isinstance(pattern, AnyNan) or (isinstance(pattern, int) and is_nan(name, pattern)):
        return canonical(name)
    assert isinstance(pattern, int)
    return 0 if pattern & FORMATS[name].sign else pattern


def add(name: str, mode: str, a: tuple[int, Magnitude], b: tuple[int, Magnitude]) -> object:
    """Sum of decoded numbers."""
    (sa, x), (sb, y) = a, b
    if isinstance(x, str) or isinstance(y, str):
        if "nan" in (x, y) or (x == y and sa != sb):
            return AnyNan(name)
        return encode(name, sa if x == "inf" else sb, "inf")
    left, right = x.numerator * y.denominator, y.numerator * x.denominator
    total = (-left if sa else left) + (-right if sb else right)
    if total == 0:
        return _encode(name, sa if left == right == 0 and sa == sb else int(mode == "rm"), 0, 1, mode)
    return _encode(name, int(total < 0), abs(total), x.denominator * y.denominator, mode)


def product(a: tuple[int, Magnitude], b: tuple[int, Magnitude]) -> tuple[int, Magnitude]:
    """Exact product of decoded numbers."""
    (sa, x), (sb, y) = a, b
    sign = sa ^ sb
    if isinstance(x, str) or isinstance(y, str):
        return sign, "nan" if "nan" in (x, y) or 0 in (x, y) else "inf"
    return sign, x * y


def quotient(a: tuple[int, Magnitude], b: tuple[int, Magnitude]) -> tuple[int, Magnitude]:
    """Exact quotient of decoded numbers."""
    (sa, x), (sb, y) = a, b
    sign = sa ^ sb
    if isinstance(x, str) or isinstance(y, str):
        return sign, "nan" if "nan" in (x, y) or x == y else "inf" if x == "inf" else Fraction(0)
    if y == 0:
        return sign, "nan" if x == 0 else "inf"
    return sign, x / y


def root(a: tuple[int, Magnitude]) -> tuple[int, Magnitude]:
    """Square root, exact or cut after 200 bits with a sticky half, which every rounding treats alike."""
    sign, x = a
    if x == 0:
        return a
    if sign or x in ("nan", "inf"):
        return (sign, "nan") if sign or x == "nan" else a
    assert isinstance(x, Fraction)
    shift = 2 * (200 + abs(binary_exponent(x)))
    scaled = x * power(shift)
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    exact = whole * whole == scaled
    return 0, (Fraction(whole) if exact else whole + Fraction(1, 2)) / power(shift // 2)


def rounded(name: str, number: tuple[int, Magnitude], mode: str) -> object:
    """Round a decoded number; a NaN may have any payload."""
    return AnyNan(name) if number[1] == "nan" else encode(name, *number, mode)


# -- values -----------------------------------------------------------------------------------------------------


def special_patterns(name: str) -> list[int]:
    """Zeros, ends of the subnormals and normals, infinities, NaNs, one and its neighbours, with both signs."""
    format_ = FORMATS[name]
    tiny, one = 1 << format_.fraction, encode(name, 0, Fraction(1))
    half_up = one | (1 << (format_.fraction - 1))
    positive = [0, 1, 2, tiny - 1, tiny, tiny + 1, one - 1, one, one + 1, half_up, half_up + 1, one + tiny, one | 5]
    positive += [one + 2 * tiny, one - 2 * tiny, format_.infinity - 1, format_.infinity - 2, format_.infinity]
    positive += [format_.infinity | 1, format_.infinity | (1 << (format_.fraction - 1)), canonical(name)]
    positive += [encode(name, 0, Fraction(n)) for n in (3, 127, 128, 255, 256, 32767, 32768)]
    positive += [encode(name, 0, Fraction(2 * n + 1, 2)) for n in (0, 1, 2, 63, 127, 255)]
    return [p | s for p in positive for s in (0, format_.sign)]


def pattern(name: str, rng: random.Random) -> int:
    """A random bit pattern: of any bits, or with a fraction from which halfway cases come."""
    format_ = FORMATS[name]
    if rng.random() < 0.3:
        return rng.getrandbits(format_.bits)
    whole = 1 << format_.fraction
    middle = (1 << (format_.exponent - 1)) - 1
    fraction = rng.choice([0, 1, 2, whole - 1, whole - 2, whole // 2, whole // 2 + 1, rng.randrange(whole)])
    near = rng.random() < 0.6
    spread = min(14, middle - 1) if rng.random() < 0.5 else min(format_.fraction + 4, middle - 1)
    exponent = middle + rng.randint(-spread, spread) if near else rng.randrange(1 << format_.exponent)
    return (rng.getrandbits(1) * format_.sign) | (exponent << format_.fraction) | fraction


def columns(types: Sequence[str], rng: random.Random, count: int) -> list[list[int]]:
    """`count` operand tuples, transposed, for float operands and packed ones (`f16x2`, `bf16x2`, `f32x2`)."""
    result = []
    for type_ in types:
        name, _, lanes = type_.partition("x")
        if lanes:
            low, high = columns([name, name], rng, count)
            rng.shuffle(high)
            result.append([x | y << FORMATS[name].bits for x, y in zip(low, high, strict=True)])
            continue
        edges = special_patterns(name)
        rng.shuffle(edges)
        some = (edges * 2)[: count // 2]
        column = some + [pattern(name, rng) for _ in range(count - len(some))]
        result.append(column)
    if len(types) == 3:
        _cancel(types, result, rng)
    return result


def _cancel(types: Sequence[str], result: list[list[int]], rng: random.Random) -> None:
    """Make some addends the opposite of the rounded product, give or take a unit, so that sums cancel."""
    name = types[2]
    if name not in FORMATS or types[0] not in FORMATS:
        return
    for i in range(0, len(result[0]), 5):
        sign, magnitude = product(decode(types[0], result[0][i]), decode(types[1], result[1][i]))
        if magnitude not in ("nan", "inf"):
            opposite = encode(name, sign ^ 1, magnitude)
            result[2][i] = max(0, opposite + rng.choice([-1, 0, 0, 1]))
