"""Comparison and selection on Python's numbers; independent of the emitter.

Floats of every format are decoded to exact Python floats (double holds them all).
"""

from __future__ import annotations

import math
import operator

from oracle_integer import number

FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000}
ORDER = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}


def fields(bits: int, ptx_type: str) -> tuple[int, int, int]:
    """Sign, biased exponent, fraction."""
    exponent, fraction = FORMATS[ptx_type]
    return bits >> (exponent + fraction), bits >> fraction & ((1 << exponent) - 1), bits & ((1 << fraction) - 1)


def decoded(bits: int, ptx_type: str, flush: bool = False) -> float:
    sign, exponent, fraction = fields(bits, ptx_type)
    exponent_bits, fraction_bits = FORMATS[ptx_type]
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == (1 << exponent_bits) - 1:
        return math.nan if fraction else (-math.inf if sign else math.inf)
    if exponent == 0:
        size = 0.0 if flush else math.ldexp(fraction, 1 - bias - fraction_bits)
    else:
        size = math.ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits)
    return -size if sign else size


def holds(parts: list[str], ptx_type: str, a: int, b: int) -> bool:
    comparison = parts[1]
    if ptx_type not in FORMATS:
        return ORDER[comparison](number(a, ptx_type), number(b, ptx_type))
    x, y = (decoded(v, ptx_type, "ftz" in parts) for v in (a, b))
    unordered = math.isnan(x) or math.isnan(y)
    if comparison in {"num", "nan"}:
        return unordered == (comparison == "nan")
    if unordered:
        return comparison.endswith("u")
    return ORDER[comparison.removesuffix("u")](x, y)


def combined(parts: list[str], truth: bool, c: tuple[int, ...]) -> bool:
    if not c:
        return truth
    return {"and": truth and bool(c[0]), "or": truth or bool(c[0]), "xor": truth != bool(c[0])}[parts[2]]


def oracle_setp(name, a, b, *c):
    parts = name.split(".")
    t = parts[-1]
    if t.endswith("x2"):
        low = holds(parts, t[:-2], a & 0xFFFF, b & 0xFFFF)
        high = holds(parts, t[:-2], a >> 16, b >> 16)
        return combined(parts, low, c), combined(parts, high, c)
    truth = holds(parts, t, a, b)
    if t in {"f16", "bf16"}:
        return combined(parts, truth, c)  # one destination only
    return combined(parts, truth, c), combined(parts, not truth, c)


def oracle_set(name, a, b, *c):
    parts = name.split(".")
    into, t = parts[-2:]
    if t.endswith("x2"):
        result = 0
        for shift in (0, 16):
            truth = combined(parts, holds(parts, t[:-2], a >> shift & 0xFFFF, b >> shift & 0xFFFF), c)
            result |= (ONE.get(into[:-2], 0xFFFF) if truth else 0) << shift
        return result
    if not combined(parts, holds(parts, t, a, b), c):
        return 0
    return ONE.get(into) or (1 << int(into[1:])) - 1


def oracle_selp(name, a, b, c):
    return a if c else b


def oracle_slct(name, a, b, c):
    parts = name.split(".")
    value = number(c, "s32") if parts[-1] == "s32" else decoded(c, "f32", "ftz" in parts)
    return a if value >= 0 else b


def oracle_testp(name, a):
    _, wanted, t = name.split(".")
    _, exponent, fraction = fields(a, t)
    top = (1 << FORMATS[t][0]) - 1
    return {
        "finite": exponent < top,
        "infinite": exponent == top and fraction == 0,
        "number": exponent < top or fraction == 0,
        "notanumber": exponent == top and fraction != 0,
        "normal": 0 < exponent < top or (exponent == 0 and fraction == 0),
        "subnormal": exponent == 0 and fraction != 0,
    }[wanted]
