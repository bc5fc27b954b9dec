"""The approximate functions against 90-digit decimal arithmetic, with the error that their rows state."""

from __future__ import annotations

import decimal
import functools
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from harness import SHAPES, Compiled, assert_covers, differences, forms_of, signature
from oracle_float import (
    FORMATS,
    Magnitude,
    Pair,
    binary_exponent,
    canonical,
    columns,
    decode,
    encode,
    flushed,
    power,
    quotient,
    root,
    signed,
)

from tilewright.simulate.isa.approximate import rows

FORMS = forms_of(rows)
CONTEXT = decimal.Context(prec=90, Emin=-999999, Emax=999999)
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")

Number = tuple[int, Magnitude]


class OneOf:
    """Equal to each of a few patterns."""

    def __init__(self, *patterns: object) -> None:
        self.patterns = patterns

    def __eq__(self, other: object) -> bool:
        return any(p == other for p in self.patterns)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"one of {self.patterns}"


def near(name: str, exact: Decimal | Fraction, slack: str = "0.0001") -> OneOf:
    """The results within half a unit and `slack` units of an exact value that is not zero."""
    value = Fraction(exact)
    sign, magnitude = int(value < 0), abs(value)
    exponent = max(binary_exponent(magnitude), FORMATS[name].least)
    delta = Fraction(slack) * power(exponent - FORMATS[name].fraction)
    return OneOf(*(encode(name, sign, max(magnitude + d, Fraction(0))) for d in (-delta, Fraction(0), delta)))


def to_decimal(x: Fraction) -> Decimal:
    return CONTEXT.divide(Decimal(x.numerator), Decimal(x.denominator))


def exponential(x: Fraction) -> Decimal:
    """e**x."""
    return CONTEXT.exp(to_decimal(x))


def ex2(name: str, number: Number) -> object:
    sign, x = number
    if x == "inf":
        return encode(name, 0, Fraction(0) if sign else "inf")
    if x > 2000:
        return encode(name, 0, Fraction(0) if sign else "inf")
    if x == 0:
        return encode(name, 0, Fraction(1))
    return near(name, CONTEXT.power(Decimal(2), to_decimal(signed(sign, x))))


def lg2(name: str, number: Number) -> object:
    sign, x = number
    if x == 0:
        return encode(name, 1, "inf")
    if sign:
        return canonical(name)
    if x in ("inf", 1):
        return encode(name, 0, "inf" if x == "inf" else Fraction(0))
    return near(name, CONTEXT.divide(CONTEXT.ln(to_decimal(x)), CONTEXT.ln(Decimal(2))))


def tanh(name: str, number: Number) -> object:
    sign, x = number
    if x == "inf" or x > 50:
        return encode(name, sign, Fraction(1))
    if x == 0:
        return encode(name, sign, Fraction(0))
    up, down = (Fraction(exponential(signed(sign, f * x))) for f in (1, -1))
    if abs(x) < power(-40):  # the quotient's digits are gone; two terms of the series are enough
        return near(name, signed(sign, x - x**3 / 3))
    return near(name, (up - down) / (up + down))


def circular(name: str, number: Number, quarter: int) -> object:
    """Sine of a number plus a quarter turn or none."""
    sign, x = number
    if x == "inf":
        return canonical(name)
    if x == 0 and not quarter:
        return encode(name, sign, Fraction(0))
    if x >= power(48):
        return encode(name, 0, Fraction(quarter))
    angle = to_decimal(signed(sign, x)) + PI / 2 * quarter
    with decimal.localcontext(CONTEXT):
        angle = to_decimal(signed(sign, x)) + PI / 2 * quarter
        angle -= 2 * PI * (angle / (2 * PI)).to_integral_value()
        term, total, k = angle, angle, 1
        while abs(term) > Decimal("1e-75") * abs(total):
            term = -term * angle * angle / ((k + 1) * (k + 2))
            total, k = total + term, k + 2
    return near(name, total, "0.0001" if x < power(32) else "0.51")


def rsqrt(name: str, number: Number) -> object:
    sign, x = number
    if x == 0:
        return encode(name, sign, "inf")
    if sign:
        return canonical(name)
    slack = "1" if name == "f64" else "0.0001"
    return (
        encode(name, 0, Fraction(0)) if x == "inf" else near(name, quotient((0, Fraction(1)), root(number))[1], slack)
    )


def divide(name: str, parts: list[str], a: Number, b: Number) -> object:
    if "approx" in parts and b[1] not in ("nan", "inf") and b[1] > power(126):
        a, b = (a if a[1] in ("nan", "inf") else (a[0], Fraction(1))), (b[0], "inf")
        if a[1] == "inf":
            return canonical(name)
    return encode(name, *quotient(a, b))


def upper(opcode: str, x: int) -> object:
    """The gross forms of double: 20 bits of fraction from 20 bits of fraction."""
    number = decode("f64", flushed("f64", x & 0xFFFFFFFF00000000))
    exact = quotient((0, Fraction(1)), number if opcode == "rcp" else root(number))
    if exact[1] == "nan":
        return 0x7FFFFFFF00000000
    if exact[1] in ("inf", 0):
        return encode("f64", *exact)
    scale = binary_exponent(exact[1]) - 20
    steps = exact[1] / power(scale)
    found = [
        encode("f64", exact[0], (steps + d) // 1 * power(scale)) for d in (Fraction(499, 1000), Fraction(501, 1000))
    ]
    return OneOf(*(flushed("f64", p) for p in found))


def scalar(form: str, name: str, *operands: int) -> object:
    opcode, *parts = form.split(".")
    if name == "f64" and "ftz" in parts:
        return upper(opcode, *operands)
    if "ftz" in parts:
        operands = tuple(flushed(name, x) for x in operands)
    numbers = [decode(name, x) for x in operands]
    if any(magnitude == "nan" for _, magnitude in numbers):
        return canonical(name)
    functions: dict[str, Callable[[], object]] = {
        "div": lambda: divide(name, parts, *numbers),
        "rcp": lambda: encode(name, *quotient((0, Fraction(1)), numbers[0])),
        "sqrt": lambda: encode(name, *root(numbers[0])),
        "rsqrt": lambda: rsqrt(name, numbers[0]),
        "ex2": lambda: ex2(name, numbers[0]),
        "lg2": lambda: lg2(name, numbers[0]),
        "tanh": lambda: tanh(name, numbers[0]),
        "sin": lambda: circular(name, numbers[0], 0),
        "cos": lambda: circular(name, numbers[0], 1),
    }
    result = functions[opcode]()
    if "ftz" in parts:
        some = result.patterns if isinstance(result, OneOf) else (result,)
        return OneOf(*(flushed(name, p) for p in some))
    return result


@functools.cache
def oracle(form: str, *operands: int) -> object:
    name, _, lanes = form.rsplit(".", maxsplit=1)[-1].partition("x")
    if not lanes:
        return scalar(form, name, *operands)
    bits = FORMATS[name].bits
    low, high = ([part(x) for x in operands] for part in (lambda x: x & ((1 << bits) - 1), lambda x: x >> bits))
    return Pair(scalar(form, name, *low), scalar(form, name, *high), bits)


compiled = functools.cache(lambda: Compiled(FORMS))


def test_every_row_has_forms_under_test() -> None:
    assert_covers(FORMS, rows)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_error_is_what_the_row_states(form: object) -> None:
    values = columns(signature(form).source_types, random.Random(form.name), 512)
    wrong = [text for shape in SHAPES for text in differences(compiled(), form, shape, values, oracle)]
    assert not wrong, "\n".join(wrong[:12])


def test_oracle_rejects_the_neighbour() -> None:
    one = encode("f32", 0, Fraction(3))
    root_of_nine = oracle("sqrt.approx.f32", encode("f32", 0, Fraction(9)))
    assert root_of_nine == one
    assert root_of_nine != one + 1
    two_to_half = oracle("ex2.approx.f32", encode("f32", 0, Fraction(1, 2)))
    assert two_to_half == 0x3FB504F3  # sqrt(2), IEEE 754 single
    assert two_to_half != 0x3FB504F4
