"""cvt between every pair of integers and floats against exact rationals."""

from __future__ import annotations

import functools
import random
from fractions import Fraction

import levels
import pytest
from harness import SHAPES, Compiled, assert_covers, differences, edge_patterns, forms_of, random_patterns, signature
from oracle_float import (
    FORMATS,
    AnyNan,
    canonical,
    columns,
    decode,
    encode,
    flushed,
    is_nan,
    power,
    rectified,
    saturated,
    signed,
    to_integer,
)

from tilewright.simulate.isa.convert import rows
from tilewright.simulate.isa.table import Form

FORMS = forms_of(rows)
DIRECTIONS = ("rn", "rz", "rm", "rp")
WHOLE = ("rni", "rzi", "rmi", "rpi")


def limits(type_: str) -> tuple[int, int]:
    bits = int(type_[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)


def integer(type_: str, pattern: int) -> int:
    bits = int(type_[1:])
    return pattern - (1 << bits) if type_[0] == "s" and pattern >> (bits - 1) else pattern


def clamp(type_: str, value: float) -> int:
    """Pattern of the nearest value of a type."""
    least, greatest = limits(type_)
    return int(min(max(value, least), greatest)) & ((1 << int(type_[1:])) - 1)


def whole(mode: str, sign: int, magnitude: Fraction) -> int:
    """A number rounded to an integer."""
    count = to_integer(magnitude, mode, negative=bool(sign))
    return -count if sign else count


def to_int(parts: list[str], target: str, source: str, x: int) -> int:
    if source not in FORMATS:
        value = integer(source, x)
        return clamp(target, value) if "sat" in parts else value & ((1 << int(target[1:])) - 1)
    sign, magnitude = decode(source, flushed(source, x) if "ftz" in parts else x)
    if magnitude == "nan":
        return 1 << (int(target[1:]) - 1) if source == "f64" or target[1:] == "64" else 0
    if magnitude == "inf":
        return clamp(target, -(1 << 70) if sign else 1 << 70)
    assert isinstance(magnitude, Fraction)
    return clamp(target, whole(next(m for m in WHOLE if m in parts), sign, magnitude))


def to_float(parts: list[str], target: str, source: str, x: int) -> object:
    mode = next((m for m in DIRECTIONS if m in parts), "rn")
    if source in FORMATS:
        ftz = "ftz" in parts
        number = decode(source, flushed(source, x) if ftz and source == "f32" else x)
        round_to = next((m for m in WHOLE if m in parts), None)
        if round_to and isinstance(number[1], Fraction):
            number = number[0], Fraction(abs(whole(round_to, *number)))
    else:
        value = integer(source, x)
        number, ftz = (int(value < 0), Fraction(abs(value))), False
    result: object = encode(target, *number, mode)
    if number[1] == "nan":
        result = canonical(target) if FORMATS[target].bits == 16 and source != target else AnyNan(target)
    elif ftz and target == "f32":
        result = flushed(target, int(str(result)))
    if "sat" in parts:
        return saturated(target, result)
    if "satfinite" in parts and isinstance(result, int):
        top = FORMATS[target].sign
        infinite = result & (top - 1) == FORMATS[target].infinity
        result = result - 1 if infinite else result
    return rectified(target, result) if "relu" in parts else result


@functools.cache
def oracle(form: str, x: int) -> object:
    *parts, target, source = form.split(".")[1:]
    return to_float(parts, target, source, x) if target in FORMATS else to_int(parts, target, source, x)


def values_for(form: Form, count: int) -> list[list[int]]:
    """Values of the source, with those around the destination's steps and ends."""
    rng = random.Random(form.name)
    (source,) = signature(form).source_types
    target = form.type_of("d")
    if source not in FORMATS:
        edges = edge_patterns(source)
        bits, rng_bits = int(source[1:]), rng.getrandbits
        around = [(1 << rng_bits(6) % bits) + rng.choice([-1, 0, 1]) for _ in range(count // 4)]
        halfway = [(3 + 4 * rng_bits(22) | 1) << rng_bits(6) for _ in range(count // 4)]
        found = edges + [v & ((1 << bits) - 1) for v in around + halfway]
        found += [-v & ((1 << bits) - 1) for v in around]
        found += random_patterns(source, rng, count)
        return [found[:count]]
    (found,) = columns([source], rng, count)
    if target in FORMATS:
        halfway = [decode(target, p)[1] for p in columns([target], rng, count // 4)[0]]
        unit = FORMATS[target].fraction
        for i, magnitude in enumerate(halfway):
            if isinstance(magnitude, Fraction):
                moved = magnitude * (1 + rng.choice([1, -1]) * power(-unit - 1) * rng.choice([0, 1, 1, 3]))
                moved *= 1 + rng.choice([0, 0, 1, -1]) * power(-50)
                found[2 * i + 1] = encode(source, rng.getrandbits(1), moved)
    else:
        for i, end in enumerate(limits(target) * 8):
            near = Fraction(end) + Fraction(rng.randint(-5, 5), 2)
            found[2 * i + 1] = encode(source, int(near < 0), abs(near))
    return [found]


@functools.cache
def compiled(target: str) -> Compiled:
    return Compiled([form for form in FORMS if form.type_of("d") == target])


def test_every_row_has_forms_under_test() -> None:
    assert_covers(FORMS, rows)


def test_every_pair_of_types_has_a_form() -> None:
    types = ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", *FORMATS]
    pairs = {(form.type_of("d"), form.type_of("a")) for form in FORMS}
    assert pairs == {(d, a) for d in types for a in types}


@pytest.mark.parametrize("target", sorted({form.type_of("d") for form in FORMS}))
def test_conversion_is_exact_then_rounded_once(target: str) -> None:
    wrong = []
    for form in FORMS:
        if form.type_of("d") == target:
            values = values_for(form, levels.share(256))
            for shape in SHAPES[:2]:  # one operand: "mixed" is "vector"
                wrong += differences(compiled(target), form, shape, values, oracle)
    assert not wrong, "\n".join(wrong[:20])


def test_nan_rules() -> None:
    assert oracle("cvt.rzi.s32.f32", 0x7FC00000) == 0
    assert oracle("cvt.rzi.s64.f32", 0x7FC00000) == 1 << 63
    assert oracle("cvt.rzi.u32.f64", 0x7FF8000000000000) == 1 << 31
    assert is_nan("f16", canonical("f16"))
    assert signed(1, Fraction(2)) == -2
