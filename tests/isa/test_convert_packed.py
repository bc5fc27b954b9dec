"""cvt of packed halves, tf32 and the small floats, and cvt.pack, against tables of exact values."""

from __future__ import annotations

import bisect
import functools
import random
from fractions import Fraction

import pytest
from harness import SHAPES, Compiled, assert_covers, differences, forms_of, sample, signature
from oracle_float import FORMATS, Pair, canonical, columns, decode, encode, power, rectified, signed, to_integer

from tilewright.simulate.isa.convert_packed import rows
from tilewright.simulate.isa.table import Form

FORMS = forms_of(rows)

#: name -> exponent bits, fraction bits, patterns of the positive NaNs, whether it has an infinity, bits of an element
SMALL = {
    "e4m3x2": (4, 3, {0x7F}, False, 8),
    "e5m2x2": (5, 2, {0x7D, 0x7E, 0x7F}, True, 8),
    "e2m3x2": (2, 3, set(), False, 8),
    "e3m2x2": (3, 2, set(), False, 8),
    "e2m1x2": (2, 1, set(), False, 4),
}


@functools.cache
def finite_values(name: str) -> list[Fraction]:
    """Every finite non-negative value of a small format; its index is its pattern."""
    exponent, fraction, nans, has_infinity, _ = SMALL[name]
    bias = (1 << (exponent - 1)) - 1
    count = (1 << (exponent + fraction)) - len(nans) - has_infinity
    values = []
    for pattern in range(count):
        field, rest = divmod(pattern, 1 << fraction)
        mantissa = rest + (1 << fraction if field else 0)
        values.append(mantissa * power(max(field, 1) - bias - fraction))
    return values


def to_small(name: str, source: str, pattern: int, relu: bool) -> int:
    """The pattern of the nearest value, ties to the even pattern."""
    exponent, fraction, nans, _, _ = SMALL[name]
    values = finite_values(name)
    sign, magnitude = decode(source, pattern)
    if magnitude == "nan":
        return 0x7F if nans else len(values) - 1
    if relu and sign:
        return 0
    top = sign << (exponent + fraction)
    if magnitude == "inf" or magnitude >= values[-1]:
        return top | (len(values) - 1)
    after = bisect.bisect_right(values, magnitude)
    below, above = magnitude - values[after - 1], values[after] - magnitude
    up = above < below or (above == below and after % 2 == 0)
    return top | (after if up else after - 1)


def from_small(name: str, pattern: int, relu: bool) -> int:
    """A small format's element as an f16."""
    exponent, fraction, nans, has_infinity, _ = SMALL[name]
    sign, magnitude = divmod(pattern & ((2 << (exponent + fraction)) - 1), 1 << (exponent + fraction))
    if magnitude in nans:
        return canonical("f16")
    values = finite_values(name)
    found = encode("f16", sign, "inf" if has_infinity and magnitude == len(values) else values[magnitude])
    return int(str(rectified("f16", found))) if relu else found


def to_half(parts: list[str], name: str, x: int) -> int:
    result = encode(name, *decode("f32", x), "rz" if "rz" in parts else "rn")
    top = FORMATS[name].sign
    if "satfinite" in parts and result & (top - 1) == FORMATS[name].infinity:
        result -= 1
    return int(str(rectified(name, result))) if "relu" in parts else result


def to_tf32(parts: list[str], x: int) -> int:
    """A float with 10 fraction bits in place of 23."""
    sign, magnitude = decode("f32", x)
    if magnitude == "nan":
        return canonical("f32")
    if sign and "relu" in parts:
        return 0
    if magnitude != "inf":
        grid = 1 << 13
        mode = next(m for m in ("rna", "rn", "rz") if m in parts)
        # Patterns of one sign are equally spaced within a binade, and to a power of two the rounding agrees.
        rounded = to_integer(Fraction(x & 0x7FFFFFFF, grid), mode) * grid
    else:
        rounded = 0x7F800000
    if "satfinite" in parts:
        rounded = min(rounded, 0x7F7FE000)
    return sign << 31 | rounded


def pack(type_: str, a: int, b: int, c: int) -> int:
    bits = int(type_[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)
    result = 0
    for value in (a, b):
        number = value - (1 << 32) if value >> 31 else value
        result = result << bits | (max(low, min(high, number)) & ((1 << bits) - 1))
    return (result | c << (2 * bits)) & 0xFFFFFFFF


@functools.cache
def oracle(form: str, *operands: int) -> object:
    parts = form.split(".")[1:]
    relu = "relu" in parts
    if parts[0] == "pack":
        return pack(parts[2], *operands, *([0] if len(operands) == 2 else []))
    target, source = parts[-2:]
    if target == "tf32":
        return to_tf32(parts, *operands)
    if target in ("f16x2", "bf16x2") and source == "f32":
        name = target.removesuffix("x2")
        return Pair(to_half(parts, name, operands[1]), to_half(parts, name, operands[0]), 16)
    if target == "f16x2":
        bits = SMALL[source][4]
        low, high = operands[0] & ((1 << bits) - 1), operands[0] >> bits
        return Pair(from_small(source, low, relu), from_small(source, high, relu), 16)
    kind = "f32" if source == "f32" else "f16"
    high, low = operands if source == "f32" else (operands[0] >> 16, operands[0] & 0xFFFF)
    return to_small(target, kind, low, relu) | to_small(target, kind, high, relu) << SMALL[target][4]


def near_steps(name: str, source: str, rng: random.Random, count: int) -> list[int]:
    """Floats on and around the halfway points of a small format and its ends."""
    values = finite_values(name)
    found = []
    for _ in range(count):
        i = rng.randrange(len(values) - 1)
        middle = rng.choice([values[i], (values[i] + values[i + 1]) / 2, values[-1] + values[1] * rng.randint(0, 9)])
        pattern = encode(source, 0, middle)
        found.append(max(0, pattern + rng.choice([-1, 0, 0, 1])) | rng.getrandbits(1) * FORMATS[source].sign)
    return found


def values_for(form: Form) -> list[list[int]]:
    rng = random.Random(form.name)
    types = signature(form).source_types
    if form.has("pack"):
        found = sample(types, rng, 256)
        for column in found[:2]:
            column[1::3] = [rng.randint(-300, 300) & 0xFFFFFFFF for _ in column[1::3]]
        return found
    if types[0] in ("b8", "b16"):
        bits = int(types[0][1:])
        found = list(range(256)) if bits == 8 else [x * 0x0101 ^ y << 8 for x in range(256) for y in (0, 0x80, 0x35)]
        return [found]
    found = columns(types, rng, 512)
    small = form["small"]
    if small and types[0] == "f16x2":
        found[0][1::2] = [
            x | y << 16
            for x, y in zip(near_steps(small, "f16", rng, 256), near_steps(small, "f16", rng, 256), strict=True)
        ]
    elif small:
        for column in found:
            column[1::2] = near_steps(small, "f32", rng, 256)
    else:  # halves and tf32: around their halfway points
        for column in found:
            step = 13 if form.type_of("d") in ("tf32", "f16x2") else 16
            shift = dict.fromkeys(range(1, 512, 2), 1 << step - 1)
            for i, half in shift.items():
                column[i] = (column[i] >> step << step) + half + rng.choice([-1, 0, 0, 1])
    return found


compiled = functools.cache(lambda: Compiled(FORMS))


def test_every_row_has_forms_under_test() -> None:
    assert_covers(FORMS, rows)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_form(form: Form) -> None:
    values = values_for(form)
    wrong = [text for shape in SHAPES for text in differences(compiled(), form, shape, values, oracle)]
    assert not wrong, "\n".join(wrong)


def test_tables_of_small_values() -> None:
    assert finite_values("e4m3x2")[-1] == 448
    assert finite_values("e5m2x2")[-1] == 57344
    assert finite_values("e2m3x2")[-1] == Fraction(15, 2)
    assert finite_values("e3m2x2")[-1] == 28
    assert [signed(0, v) for v in finite_values("e2m1x2")] == [0, Fraction(1, 2), 1, Fraction(3, 2), 2, 3, 4, 6]
