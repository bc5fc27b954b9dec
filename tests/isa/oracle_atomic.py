"""The result of an atomic operation in one place of memory, in Python's numbers; independent of the emitter.

Oracles take a name, the old pattern and the operands' patterns of one element, and return the new pattern.
"""

from __future__ import annotations

import math
from fractions import Fraction

from oracle_compare import FORMATS, decoded
from oracle_integer import number, pattern, width_of


def encoded(value: Fraction, negative_zero: bool, ptx_type: str) -> int:
    """An exact value rounded to nearest even in a format."""
    exponent_bits, fraction_bits = FORMATS[ptx_type]
    bias = (1 << (exponent_bits - 1)) - 1
    sign = int(value < 0 or (value == 0 and negative_zero)) << (exponent_bits + fraction_bits)
    size = abs(value)
    if size == 0:
        return sign
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent = max(exponent - (Fraction(2) ** exponent > size), 1 - bias)
    units = size / Fraction(2) ** (exponent - fraction_bits)
    # A number's bits count upwards with its size, so a carry out of the fraction is right as it comes.
    bits = round(units) + (exponent + bias - 1) * (1 << fraction_bits)
    return sign | min(bits, ((1 << exponent_bits) - 1) << fraction_bits)


def is_nan(bits: int, ptx_type: str) -> bool:
    return math.isnan(decoded(bits, ptx_type))


def float_sum(a: int, b: int, ptx_type: str, flush: bool = False) -> int | None:
    """The sum's pattern; None for NaN."""
    x, y = (decoded(v, ptx_type, flush) for v in (a, b))
    if math.isnan(x) or math.isnan(y) or (math.isinf(x) and math.isinf(y) and x != y):
        return None
    exponent_bits, fraction_bits = FORMATS[ptx_type]
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    if math.isinf(x) or math.isinf(y):
        return infinity | (int(x + y < 0) << (exponent_bits + fraction_bits))
    both_negative = math.copysign(1, x) < 0 and math.copysign(1, y) < 0
    bits = encoded(Fraction(x) + Fraction(y), both_negative, ptx_type)
    sign = 1 << (exponent_bits + fraction_bits)
    if flush and bits & (sign - 1) < 1 << fraction_bits:
        return bits & sign
    return bits


def float_extreme(operation: str, a: int, b: int, ptx_type: str) -> int | None:
    numbers = [v for v in (a, b) if not is_nan(v, ptx_type)]
    if not numbers:
        return None
    top = 1 << (sum(FORMATS[ptx_type]))
    return (max if operation == "max" else min)(numbers, key=lambda v: (decoded(v, ptx_type), -(v & top)))


INTEGER = {
    "and": lambda old, b, t: old & b,
    "or": lambda old, b, t: old | b,
    "xor": lambda old, b, t: (old | b) - (old & b),
    "exch": lambda old, b, t: b,
    "add": lambda old, b, t: old + b,
    "inc": lambda old, b, t: 0 if old >= b else old + 1,
    "dec": lambda old, b, t: b if old == 0 or old > b else old - 1,
    "min": lambda old, b, t: min(number(old, t), number(b, t)),
    "max": lambda old, b, t: max(number(old, t), number(b, t)),
}


def combined(operation: str, t: str, flush: bool, old: int, b: int) -> int | None:
    """The new pattern of one number."""
    if t in FORMATS:
        return float_sum(old, b, t, flush) if operation == "add" else float_extreme(operation, old, b, t)
    return pattern(INTEGER[operation](old, b, t), width_of(t))


def new_value(name: str, old: int, *operands: int) -> list[tuple[int, int | None, str]]:
    """(bit position, pattern, type) of each number that memory holds afterwards; None for any NaN."""
    parts = name.split(".")
    t = parts[-1]
    operation = next(part for part in parts if part in INTEGER or part == "cas")
    if operation == "cas":
        compare, new = operands
        return [(0, new if old == compare else old, t)]
    flush = t == "f32" and "global" in parts
    element, _, packed = t.partition("x")
    if not packed or element not in FORMATS:
        return [(0, combined(operation, t, flush, old, operands[0]), t)]
    halves = [(old >> s & 0xFFFF, operands[0] >> s & 0xFFFF) for s in (0, 16)]
    return [(16 * i, combined(operation, element, False, *pair), element) for i, pair in enumerate(halves)]
