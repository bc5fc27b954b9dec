"""Constant expressions; the expected values are what ptxas 13 writes into a .u64 with the same initialiser."""

from __future__ import annotations

import pytest

from tilewright.errors import PtxError
from tilewright.simulate.ptx import parse
from tilewright.simulate.ptx.constants import expression
from tilewright.simulate.ptx.tokens import Tokens
from tilewright.simulate.ptx.tree import Immediate

ALL = 2**64 - 1


def value(text: str) -> int:
    found = expression(Tokens(text, "x"))
    assert found.kind == "int"
    return found.value & ALL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("017", 15),
        ("0b101", 5),
        ("0x10U", 16),
        ("18446744073709551615", ALL),
        ("-9223372036854775808", 1 << 63),
        ("-18446744073709551615", 1),
        ("+5", 5),
        ("- -3", 3),
        ("-(-3)", 3),
        ("!0", 1),
        ("!5", 0),
        ("1+2*3", 7),
        ("2-3-4", -5 & ALL),
        ("(1+2)*3", 9),
        ("-7/2", -3 & ALL),
        ("-7 % 3", 0),  # the remainder is unsigned
        ("5 % -3", 5),
        ("-1/2U", (1 << 63) - 1),
        ("-1U/2", (1 << 63) - 1),
        ("~0/2", (1 << 63) - 1),  # so is a complement
        ("(-1|0)/2", 0),
        ("0xFFFFFFFFFFFFFFFF/2", (1 << 63) - 1),
        ("-1 > 0", 0),
        ("-1 > 0U", 1),
        ("-1 < 1U", 0),
        ("-1 >= 0xFFFFFFFFFFFFFFFF", 1),
        ("(.u64)-1 > 0", 1),
        ("(.u64)-1/2", (1 << 63) - 1),
        ("(.s64)0xFFFFFFFFFFFFFFFF >> 1", ALL),
        ("-8 >> 1", -4 & ALL),
        ("-1U >> 1", (1 << 63) - 1),
        ("1 << 63", 1 << 63),
        ("1<<64", 1),
        ("1<<2+1", 8),
        ("3&6|8", 10),
        ("6^3", 5),
        ("7 & 3 == 3", 1),
        ("5&&3", 1),
        ("5&&0", 0),
        ("0||2", 1),
        ("1 ? 2 : 0 ? 3 : 4", 2),
        ("0 ? 2 : 0 ? 3 : 4", 4),
        ("-1.5 < 2.0", 1),
        ("WARP_SZ-1", 31),
    ],
)
def test_integers(text: str, expected: int) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0f3F800000", Immediate(0x3F800000, "f32")),
        ("0F3f800000", Immediate(0x3F800000, "f32")),
        ("-0f3F800000", Immediate(0xBF800000, "f32")),
        ("0d3FF8000000000000", Immediate(0x3FF8000000000000, "f64")),
        ("1.5", Immediate(0x3FF8000000000000, "f64")),
        ("1.", Immediate(0x3FF0000000000000, "f64")),
        (".5", Immediate(0x3FE0000000000000, "f64")),
        ("-15e-1", Immediate(0xBFF8000000000000, "f64")),
        ("1.5E+0", Immediate(0x3FF8000000000000, "f64")),
        ("0.75*2.0", Immediate(0x3FF8000000000000, "f64")),
        ("1e999", Immediate(0x7FF0000000000000, "f64")),
    ],
)
def test_floats(text: str, expected: Immediate) -> None:
    assert expression(Tokens(text, "x")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "09", "0x", "0b2", "1x", "0f3F80000", "0d1", "18446744073709551616", "1/0", "1 % 0", "1.0/0.0", "1.0 % 2.0",
        "~1.5",
        "(.s64)2.5", "(1", "1+", "1 ? 2", "%r1", "", "(" * 1000, "-" * 1000, "9" * 5000, "1?" * 1000,
    ],
)  # fmt: skip
def test_invalid_constants_are_refused(text: str) -> None:
    with pytest.raises(PtxError, match=r"^x:1: "):
        expression(Tokens(text, "x"))


HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".global .f32 x = 1.5;", (0x3FC00000,)),
        (".global .f32 x = 1;", (0x3F800000,)),
        (".global .f32 x = 1e300;", (0x7F800000,)),
        (".global .f32 x = 0d3FF0000000000000;", (0x3F800000,)),
        (".global .f64 x = 0f3F800000;", (0x3FF0000000000000,)),
        (".global .b32 x = 0f3F800000;", (0x3F800000,)),
        (".global .u8 x[2] = {1+1, -1};", (2, -1)),
    ],
)
def test_initialisers_take_the_type_of_their_variable(text: str, expected: tuple[int, ...]) -> None:
    assert parse(HEADER + text).variables["x"].initial == expected
