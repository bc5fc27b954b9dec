"""Results of tensor cores, in exact numbers, by the formulas of the published models.

Source: arXiv 2511.10909 (MMA-Sim), section on Nvidia's fused dot-product-add with truncation; arXiv 2512.07004.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: Products a group, fraction bits, and fraction bits of a float32 result: by compute capability, and type of elements.
RULES = {
    "7.0": {"f16": (4, 23, 23)},
    "7.5": {"f16": (8, 24, 23)},
    "8.0": {"f16": (8, 24, 23), "bf16": (8, 24, 23), "tf32": (4, 24, 23)},
    "8.9": {"f16": (8, 24, 23), "bf16": (8, 24, 23), "tf32": (4, 24, 23), "fp8": (16, 13, 13)},
    "9.0": {"f16": (16, 25, 23), "bf16": (16, 25, 23), "tf32": (8, 25, 23)},
    "10.0": {"f16": (16, 25, 23), "bf16": (16, 25, 23), "tf32": (8, 25, 23)},
    "12.0": {"f16": (16, 25, 23), "bf16": (16, 25, 23), "tf32": (8, 25, 23), "fp8": (32, 25, 23)},
}
#: Exponent bits, fraction bits and bias.
FORMATS = {"f16": (5, 10, 15), "bf16": (8, 7, 127), "tf32": (8, 10, 127), "e4m3": (4, 3, 7), "e5m2": (5, 2, 15),
           "e3m2": (3, 2, 3), "e2m3": (2, 3, 1), "e2m1": (2, 1, 1), "f32": (8, 23, 127)}  # fmt: skip
#: Formats of 6 and 4 bits, without infinity and NaN.
FINITE = ("e3m2", "e2m3", "e2m1")
_LEAST = -126
_NAN = float("nan")


@functools.lru_cache(1 << 17)
def value_of(bits: int, name: str) -> float:
    """The number that a pattern of a format stands for; each fits a double."""
    bits >>= {"tf32": 13, "e2m1": 2}.get(name, 0)  # e2m1 is in the middle of its byte
    exponent_bits, fraction_bits, bias = FORMATS[name]
    sign = -1.0 if bits >> (exponent_bits + fraction_bits) & 1 else 1.0
    field = bits >> fraction_bits & (1 << exponent_bits) - 1
    fraction = bits & (1 << fraction_bits) - 1
    if name == "e4m3":
        if field == 15 and fraction == 7:
            return _NAN
    elif name not in FINITE and field == (1 << exponent_bits) - 1:
        return _NAN if fraction else sign * math.inf
    if field == 0:
        return sign * math.ldexp(fraction, 1 - bias - fraction_bits)
    return sign * math.ldexp(fraction + (1 << fraction_bits), field - bias - fraction_bits)


@functools.lru_cache(1 << 17)
def exponent_of(x: float, name: str) -> int:
    """The exponent of a number, not below the least of its format."""
    return max(math.frexp(x)[1] - 1, 1 - FORMATS[name][2])


def rounded(number: int, unit: int, name: str, kept: int) -> int:
    """The bits of `number` times 2 to `unit`: float32 is truncated after `kept` bits, float16 rounded to even."""
    if number == 0:
        return 0
    return bits_of(_kept(number, unit, name, kept if name == "f32" else FORMATS[name][1], nearest=name != "f32"), name)


def _kept(number: int, unit: int, name: str, fraction_bits: int, *, nearest: bool) -> float:
    """A number that is not 0, times 2 to `unit`, in a format, or infinity."""
    bias, magnitude = FORMATS[name][2], abs(number)
    exponent = max(magnitude.bit_length() - 1 + unit, 1 - bias) - fraction_bits
    away = exponent - unit
    if away <= 0:
        whole = magnitude << -away
    else:
        whole = magnitude >> away
        rest, half = magnitude & (1 << away) - 1, 1 << away - 1
        whole += nearest and (rest > half or (rest == half and whole & 1))
    value = math.ldexp(whole, exponent) if whole.bit_length() - 1 + exponent <= bias else math.inf
    return math.copysign(value, number)


def bits_of(x: float, name: str) -> int:
    """The pattern of a number that the format has."""
    if math.isnan(x):
        return 0x7FFFFFFF if name == "f32" else 0x7FFF
    code, integer = ("<f", "<I") if name == "f32" else ("<e", "<H")
    return int(struct.unpack(integer, struct.pack(code, x))[0])


def _fma(a: float, b: float, c: float, name: str) -> float:
    """A fused multiply-add of the format."""
    if not all(map(math.isfinite, (a, b, c))):
        return c if math.isfinite(a) and math.isfinite(b) else a * b + c
    (x, of_x), (y, of_y), (z, of_z) = (number.as_integer_ratio() for number in (a, b, c))
    total = x * y * of_z + z * of_x * of_y
    if total == 0:
        return a * b + c
    unit = 1 - (of_x * of_y * of_z).bit_length()  # denominators are powers of two
    return _kept(total, unit, name, FORMATS[name][1], nearest=True)


@np.errstate(invalid="ignore")
def by_halves(a: Any, b: Any, c: Any, types: tuple[str, str, str], capability: str) -> Any:
    """The assembler's code for 8-bit products on 9.0 and 10.0: F2FP to float16, HMMA twice from 0, then FADD."""
    of_a, of_b, of_c = types
    total: Any = 0
    for low in (True, False):
        chosen = [i for i in range(np.shape(a)[-1]) if (i % 4 < 2) == low]
        halves = [_each(lambda x, of=name: bits_of(value_of(x, of), "f16"), np.asarray(bits)[..., chosen])
                  for bits, name in ((a, of_a), (b, of_b))]  # fmt: skip
        total = dot(*halves, total, ("f16", "f16", of_c), capability)
    return _each(lambda x, y: bits_of(_fma(1.0, value_of(x, of_c), value_of(y, of_c), of_c), of_c), c, total)


def _each(function: Callable[..., Any], *bits: Any) -> Any:
    """A function of patterns, of each element."""
    return np.frompyfunc(lambda *each: function(*map(int, each)), len(bits), 1)(*bits)


def quad(a: Sequence[int], b: Sequence[int], c: int, results: tuple[str, str], capability: str) -> int:
    """m8n8k4, with the types of D and C: an instruction up to 7.5, then a function of multiply-adds in float32."""
    of_d, of_c = results
    if capability in ("7.0", "7.5"):
        return dot(a, b, bits_of(value_of(c, of_c), of_d), ("f16", "f16", of_d), capability)
    x, y = ([value_of(bits, "f16") for bits in line] for line in (a, b))
    start = value_of(c, of_c)
    first = _fma(x[1], y[1], _fma(x[0], y[0], 0.0, "f32"), "f32")
    if of_d == "f32":
        chain = _fma(x[3], y[3], _fma(x[2], y[2], first, "f32"), "f32")
        return bits_of(_fma(1.0, start, chain, "f32"), "f32")
    second = _fma(x[3], y[3], _fma(x[2], y[2], 0.0, "f32"), "f32")
    total = _fma(1.0, _fma(1.0, start, first, "f32"), second, "f32")
    return bits_of(_fma(1.0, total, 0.0, "f16") if total else total, "f16")


def dot(a: Any, b: Any, c: Any, types: tuple[str, str, str], capability: str) -> Any:
    """The bits of c + a[0] b[0] + ..., for types of A, B and C; of arrays, along their last axis."""
    of_a = types[0]
    if {*types[:2]} & {*FINITE}:
        return in_groups(a, b, c, types, RULES["12.0"]["fp8"])
    if of_a in ("e4m3", "e5m2") and capability in ("9.0", "10.0"):
        return by_halves(a, b, c, types, capability)
    return in_groups(a, b, c, types, RULES[capability]["fp8" if of_a in ("e4m3", "e5m2") else of_a])


def of_warpgroup(a: Any, b: Any, c: Any, types: tuple[str, str, str]) -> Any:
    """The same of a warpgroup's product, which only 9.0 has: 8-bit floats are multiplied as they are."""
    return in_groups(a, b, c, types, (32, 13, 13)) if types[0] in ("e4m3", "e5m2") else dot(a, b, c, types, "9.0")


@np.errstate(invalid="ignore")  # infinities of both signs
def in_groups(a: Any, b: Any, c: Any, types: tuple[str, str, str], rule: tuple[int, int, int]) -> Any:
    """Groups of products, each added in one step to the earlier sum; of arrays, along their last axis.

    Doubles hold every product of two elements, times a power of two, and every sum of what the unit leaves of them.
    """
    of_a, of_b, of_c = types
    group, fraction, kept = rule
    x, y = _values(a, of_a), _values(b, of_b)
    products, exponents = x * y, _exponents(x, of_a) + _exponents(y, of_b)
    for start in range(0, products.shape[-1], group):
        accumulator = np.broadcast_to(_values(c, of_c), products.shape[:-1])[..., None]
        terms = np.concatenate([products[..., start : start + group], accumulator], axis=-1)
        each = np.concatenate([exponents[..., start : start + group], _exponents(accumulator, of_c)], axis=-1)
        special = ~np.isfinite(terms).all(axis=-1)
        unit = np.where(terms != 0, each, _LEAST).max(axis=-1, initial=_LEAST) - fraction
        finite = np.where(special[..., None], 0, terms)
        total = np.trunc(np.ldexp(finite, -unit[..., None])).sum(axis=-1) + 0.0  # 0 without a sign
        c = _patterns(np.where(special, terms.sum(axis=-1), _all_rounded(total, unit, of_c, kept)), of_c)
    return c


def _values(bits: Any, name: str) -> Any:
    return np.asarray(_each(functools.partial(value_of, name=name), bits), float)


def _exponents(x: Any, name: str) -> Any:
    return np.maximum(np.frexp(x)[1] - 1, 1 - FORMATS[name][2])


def _all_rounded(whole: Any, unit: Any, name: str, kept: int) -> Any:
    """The values that `rounded` gives patterns of, of integers in an array of doubles."""
    _, fraction_bits, bias = FORMATS[name]
    exponent = np.maximum(np.frexp(whole)[1] - 1 + unit, 1 - bias) - (kept if name == "f32" else fraction_bits)
    scaled = np.ldexp(np.abs(whole), unit - exponent)
    value = np.ldexp(np.trunc(scaled) if name == "f32" else np.rint(scaled), exponent)
    return np.copysign(np.where(value < 2.0 ** (bias + 1), value, np.inf), whole)


def _patterns(x: Any, name: str) -> Any:
    floats, integers, nan = ("f4", "u4", 0x7FFFFFFF) if name == "f32" else ("f2", "u2", 0x7FFF)
    return np.where(np.isnan(x), nan, x.astype(floats).view(integers).astype(np.int64))
