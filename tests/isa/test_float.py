"""f32, f64 and f32x2 arithmetic against exact rationals, over every form of every row."""

from __future__ import annotations

import functools
import random
from fractions import Fraction

import levels
import pytest
from harness import SHAPES, Compiled, assert_covers, differences, forms_of, signature
from oracle_float import (
    FORMATS,
    Pair,
    add,
    columns,
    decode,
    encode,
    flushed,
    is_nan,
    product,
    quotient,
    root,
    rounded,
    saturated,
)

from tilewright.simulate.isa.float import rows

FORMS = forms_of(rows)
MODES = ("rn", "rz", "rm", "rp")


def arithmetic(opcode: str, name: str, mode: str, ftz: bool, sat: bool, operands: tuple[int, ...], of: str) -> object:
    """One form on one tuple; `of` is the format of the operands but the last."""
    if ftz:
        operands = tuple(flushed(name, x) for x in operands)
    kinds = [of] * (len(operands) - 1) + [name if opcode in ("add", "sub", "fma", "mad") else of]
    numbers = [decode(kind, x) for kind, x in zip(kinds, operands, strict=True)]
    if opcode == "sub":
        numbers[1] = (numbers[1][0] ^ 1, numbers[1][1])
    if opcode in ("add", "sub"):
        result = add(name, mode, *numbers)
    elif opcode in ("fma", "mad"):
        result = add(name, mode, product(numbers[0], numbers[1]), numbers[2])
    else:
        one = (0, Fraction(1))
        exact = {
            "mul": lambda: product(*numbers),
            "div": lambda: quotient(*numbers),
            "rcp": lambda: quotient(one, numbers[0]),
            "sqrt": lambda: root(numbers[0]),
        }[opcode]()
        result = rounded(name, exact, mode)
    if ftz and isinstance(result, int):
        result = flushed(name, result)
    return saturated(name, result) if sat else result


@functools.cache
def oracle(form: str, *operands: int) -> object:
    opcode, *parts = form.split(".")
    name = parts[-1]
    if opcode == "copysign":
        top = FORMATS[name].sign
        return (operands[0] & top) | (operands[1] & (top - 1))
    if opcode in ("abs", "neg"):
        top = FORMATS[name].sign
        x = flushed(name, operands[0]) if "ftz" in parts else operands[0]
        return x & (top - 1) if opcode == "abs" else x ^ top
    mode = next((m for m in MODES if m in parts), "rn")
    ftz, sat = "ftz" in parts and name != "f64", "sat" in parts
    if name == "f32x2":
        low = [x & 0xFFFFFFFF for x in operands]
        high = [x >> 32 for x in operands]
        return Pair(*(arithmetic(opcode, "f32", mode, ftz, sat, tuple(x), "f32") for x in (low, high)), 32)
    if name in ("f16", "bf16"):
        return arithmetic(opcode, "f32", mode, ftz, sat, operands, name)
    return arithmetic(opcode, name, mode, ftz, sat, operands, name)


compiled = functools.cache(lambda: Compiled(FORMS))


def test_every_row_has_forms_under_test() -> None:
    assert_covers(FORMS, rows)


@pytest.mark.parametrize("opcode", sorted({form.row.opcode for form in FORMS}))
def test_forms_agree_with_exact_arithmetic(opcode: str) -> None:
    wrong = []
    for form in FORMS:
        if form.row.opcode == opcode:
            rng = random.Random(form.name)
            values = columns(signature(form).source_types, rng, levels.share(512))
            for shape in SHAPES:
                wrong += differences(compiled(), form, shape, values, oracle)
    assert not wrong, "\n".join(wrong[:20])


def test_forms_without_modifiers_are_one_operation() -> None:
    from harness import function_text

    for name, operation in {
        "add.f32": "fadd <32 x float>",
        "add.rn.f64": "fadd <32 x double>",
        "mul.rn.f32": "fmul <32 x float>",
        "fma.rn.f32": "call <32 x float> @llvm.fma",
        "fma.rn.f64": "call <32 x double> @llvm.fma",
    }.items():
        form = rows.find(name)
        assert form is not None
        body, _ = function_text("f", form, "vector")
        between = [line for line in body.splitlines() if "=" in line and "%v" in line]
        work = [line for line in between if not any(word in line for word in ("getelementptr", "load"))]
        assert len(work) == 1, work
        assert operation in work[0]


def test_oracle_knows_a_nan_from_a_number() -> None:
    assert is_nan("f32", 0x7F800001)
    assert not is_nan("f32", 0x7F800000)
    assert encode("f32", 0, decode("f64", 0x3FF0000010000000)[1]) == 0x3F800000  # halfway, to even
    assert encode("f32", 0, decode("f64", 0x3FF0000030000000)[1]) == 0x3F800002
