"""What tensor cores give, in exact numbers, from the formulas of the published models.

Source: arXiv 2511.10909 (MMA-Sim), section on Nvidia's fused dot-product-add with truncation; arXiv 2512.07004.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence

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
#: Those without infinity and NaN, of 6 and 4 bits.
FINITE = ("e3m2", "e2m3", "e2m1")
_LEAST = -126
_NAN = float("nan")


@functools.lru_cache(1 << 17)
def value_of(bits: int, name: str) -> float:
    """The number that a pattern of a format stands for; each fits a double."""
    bits >>= {"tf32": 13, "e2m1": 2}.get(name, 0)  # e2m1 lies amid its byte
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


def _special(factors: Sequence[tuple[float, float]], c: float) -> float | None:
    """What infinities and NaNs make of a sum; None where there are none."""
    products = [a * b for a, b in factors]  # NaN of 0 times infinity; overflow does not come, for doubles are wide
    if all(map(math.isfinite, [*products, c])):
        return None
    return sum(products) + c if not math.isnan(c) else c


def rounded(number: int, unit: int, name: str, kept: int) -> int:
    """The bits of `number` times 2 to `unit`: float32 is cut off behind `kept` bits, float16 rounded to even."""
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


def by_halves(a: Sequence[int], b: Sequence[int], c: int, types: tuple[str, str, str], capability: str) -> int:
    """What the assembler makes of 8-bit products for 9.0 and 10.0: F2FP to float16, HMMA twice from 0, then FADD."""
    of_a, of_b, of_c = types
    total = 0
    for low in (True, False):
        chosen = [i for i in range(len(a)) if (i % 4 < 2) == low]
        halves = [[bits_of(value_of(x[i], name), "f16") for i in chosen] for x, name in ((a, of_a), (b, of_b))]
        total = dot(*halves, total, ("f16", "f16", of_c), capability)
    return bits_of(_fma(1.0, value_of(c, of_c), value_of(total, of_c), of_c), of_c)


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


def dot(a: Sequence[int], b: Sequence[int], c: int, types: tuple[str, str, str], capability: str) -> int:
    """One result: the bits of c + a[0] b[0] + ..., for types of A, B and C."""
    of_a = types[0]
    if {*types[:2]} & {*FINITE}:
        return in_groups(a, b, c, types, RULES["12.0"]["fp8"])
    if of_a in ("e4m3", "e5m2") and capability in ("9.0", "10.0"):
        return by_halves(a, b, c, types, capability)
    return in_groups(a, b, c, types, RULES[capability]["fp8" if of_a in ("e4m3", "e5m2") else of_a])


def of_warpgroup(a: Sequence[int], b: Sequence[int], c: int, types: tuple[str, str, str]) -> int:
    """The same of a warpgroup's product, which only 9.0 has: 8-bit floats are multiplied as they are."""
    return in_groups(a, b, c, types, (32, 13, 13)) if types[0] in ("e4m3", "e5m2") else dot(a, b, c, types, "9.0")


def in_groups(
    a: Sequence[int], b: Sequence[int], c: int, types: tuple[str, str, str], rule: tuple[int, int, int]
) -> int:
    """Groups of products, each added at once to what is there."""
    of_a, of_b, of_c = types
    group, fraction, kept = rule
    for start in range(0, len(a), group):
        factors = [(value_of(x, of_a), value_of(y, of_b)) for x, y in zip(a[start:][:group], b[start:][:group])]  # noqa: B905
        accumulator = value_of(c, of_c)
        special = _special(factors, accumulator)
        if special is not None:
            c = bits_of(special, of_c)
            continue
        # Doubles hold every product of two elements, and times a power of two.
        terms = [(x * y, exponent_of(x, of_a) + exponent_of(y, of_b)) for x, y in factors]
        terms.append((accumulator, exponent_of(accumulator, of_c)))
        unit = max([_LEAST, *(exponent for value, exponent in terms if value)]) - fraction
        c = rounded(sum(math.trunc(math.ldexp(value, -unit)) for value, _ in terms), unit, of_c, kept)
    return c
