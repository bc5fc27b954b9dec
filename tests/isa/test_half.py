"""f16 and bf16 arithmetic and the minima and maxima of every float type against exact rationals."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import levels
import numpy as np
import pytest
from harness import SHAPES, Compiled, differences, forms_of, signature
from oracle_float import (
    FORMATS,
    AnyNan,
    Pair,
    add,
    canonical,
    columns,
    decode,
    flushed,
    is_nan,
    product,
    rectified,
    rounded,
    saturated,
    signed,
)

import tilewright as tw
from tilewright.simulate.isa import extrema, half
from tilewright.simulate.isa.table import Form, Table

FORMS = forms_of(half.rows)
EXTREMA = forms_of(extrema.rows)


def each_half(oracle: Callable[..., object], form: str, *operands: int) -> object:
    """Apply a scalar oracle to a form's operands, which may be packed."""
    name, _, lanes = form.rsplit(".", maxsplit=1)[-1].partition("x")
    if not lanes:
        return oracle(form, name, *operands)
    bits = FORMATS[name].bits
    low = oracle(form, name, *(x & ((1 << bits) - 1) for x in operands))
    return Pair(low, oracle(form, name, *(x >> bits for x in operands)), bits)


def arithmetic(form: str, name: str, *operands: int) -> object:
    opcode, *parts = form.split(".")
    if "ftz" in parts:
        operands = tuple(flushed(name, x) for x in operands)
    top = FORMATS[name].sign
    if opcode in ("neg", "abs"):
        return operands[0] ^ top if opcode == "neg" else operands[0] & (top - 1)
    if "oob" in parts and any(x & (top - 1) == 0x7FF7 for x in operands[:2]):
        return 0
    numbers = [decode(name, x) for x in operands]
    if opcode == "add":
        result = add(name, "rn", *numbers)
    elif opcode == "sub":
        result = add(name, "rn", numbers[0], (numbers[1][0] ^ 1, numbers[1][1]))
    elif opcode == "mul":
        result = rounded(name, product(*numbers), "rn")
    else:
        result = add(name, "rn", product(numbers[0], numbers[1]), numbers[2])
    if "ftz" in parts and isinstance(result, int):
        result = flushed(name, result)
    if "sat" in parts:
        return saturated(name, result)
    return rectified(name, result) if "relu" in parts else result


def extreme(form: str, name: str, *operands: int) -> object:
    opcode, *parts = form.split(".")
    top = FORMATS[name].sign
    if "ftz" in parts:
        operands = tuple(flushed(name, x) for x in operands)
    sign = functools.reduce(lambda x, y: x ^ y, (x & top for x in operands)) if "xorsign" in parts else 0
    if "abs" in parts:
        operands = tuple(x & (top - 1) for x in operands)
    numbers = [x for x in operands if not is_nan(name, x)]
    if not numbers or ("NaN" in parts and len(numbers) < len(operands)):
        return canonical(name)

    def order(x: int) -> tuple[Fraction | float, int]:
        negative, magnitude = decode(name, x)
        value = float("-inf" if negative else "inf") if magnitude == "inf" else signed(negative, Fraction(magnitude))
        return value, -negative

    return (min if opcode == "min" else max)(numbers, key=order) | sign


@functools.cache
def oracle(form: str, *operands: int) -> object:
    return each_half(extreme if form.startswith(("min", "max")) else arithmetic, form, *operands)


@functools.cache
def compiled(module: str) -> Compiled:
    return Compiled({"half": FORMS, "extrema": EXTREMA}[module])


@pytest.mark.parametrize(("rows", "forms"), [(half.rows, FORMS), (extrema.rows, EXTREMA)])
def test_every_row_has_forms_under_test(rows: Table, forms: list) -> None:
    assert {id(form.row) for form in forms} == {id(row) for row in rows.rows}


def wrong(module: str, forms: list, count: int) -> list[str]:
    found = []
    for form in forms:
        values = columns(signature(form).source_types, random.Random(form.name), count)
        if form.has("oob"):
            mask = 0xFFFFFFFF if form.name.endswith("x2") else 0xFFFF
            values[0][:3], values[1][8:11] = [0x7FF77FF7, 0xFFF73C00, 0x7FF7], [0x3C007FF7, 0xFFF7, 0x7FF70000]
            values = [[x & mask for x in column] for column in values]
        for shape in SHAPES:
            found += differences(compiled(module), form, shape, values, oracle)
    return found


@pytest.mark.parametrize("opcode", sorted({form.row.opcode for form in FORMS}))
def test_half_arithmetic_is_rounded_once(opcode: str) -> None:
    found = wrong("half", [form for form in FORMS if form.row.opcode == opcode], levels.share(640))
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("opcode", ["min", "max"])
def test_extrema_order_zeros_and_nans(opcode: str) -> None:
    found = wrong("extrema", [form for form in EXTREMA if form.row.opcode == opcode], levels.share(256))
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("form", [f for f in EXTREMA if "{, c}" in f.row.syntax], ids=lambda form: form.name)
def test_the_third_operand_is_optional(form: Form) -> None:
    two = replace(form, row=replace(form.row, syntax=form.row.syntax.replace("{, c}", "")))
    values = columns(["f32", "f32"], random.Random(form.name), 256)
    few = Compiled([two])
    found = [text for shape in SHAPES for text in differences(few, two, shape, values, oracle)]
    assert not found, "\n".join(found)


def test_canonical_nan_is_not_any_nan() -> None:
    assert AnyNan("f16") == 0x7E01
    assert canonical("f16") != 0x7E01


#: A block's number as a float, which LLVM knows to be no NaN, and a word that all its lanes read.
BESIDE_A_NUMBER = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to)
{{
    .reg .b32 %block;
    .reg .f32 %number, %word, %result;
    .reg .b64 %from, %to, %offset;
    ld.param.u64 %from, [from];
    ld.param.u64 %to, [to];
    mov.u32 %block, %ctaid.x;
    mul.wide.u32 %offset, %block, 4;
    add.u64 %from, %from, %offset;
    add.u64 %to, %to, %offset;
    ld.global.f32 %word, [%from];
    cvt.rn.f32.u32 %number, %block;
    {form} %result, {operands};
    st.global.f32 [%to], %result;
    ret;
}}
"""


@pytest.mark.parametrize("operands", ["%number, %word", "%word, %number"])
@pytest.mark.parametrize("form", ["min.f32", "max.f32", "min.NaN.f32", "max.NaN.f32"])
def test_extrema_of_a_nan_and_what_is_known_to_be_a_number(form: str, operands: str) -> None:
    words = [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF923456, 0x80000000, 0xBF800000, 0x7F800000, 0xFF800000]
    results = np.zeros(len(words), np.uint32)
    program = tw.programs.Program.from_ptx(BESIDE_A_NUMBER.format(form=form, operands=operands))
    tw.simt.launch(program, len(words), 32, [np.array(words, np.uint32), results])
    numbers = np.arange(len(words), dtype=np.float32).view(np.uint32).tolist()
    expected = [oracle(form, number, word) for number, word in zip(numbers, words, strict=True)]
    assert results.tolist() == expected
