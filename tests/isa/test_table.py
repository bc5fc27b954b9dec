"""The table is consistent: its kinds, shapes and units are those that rows use and the translator handles."""

from __future__ import annotations

import ast
import inspect
import re

import pytest

from tilewright.simulate import isa
from tilewright.simulate.isa.kinds import COSTS, KINDS
from tilewright.simulate.isa.roles import OPCODES
from tilewright.simulate.isa.table import Linear
from tilewright.simulate.translate.analysis import transfer
from tilewright.simulate.translate.lowering import emit


def test_kinds_are_those_of_rows_and_those_that_are_placed():
    assert {row.kind for row in isa.table().rows} == set(KINDS)
    assert {"memory", "copy", *emit._EMITTERS} == set(KINDS)


def test_shapes_are_those_of_rows_and_those_that_are_known():
    assert {row.linear for row in isa.table().rows} == set(Linear)
    cases = [n for n in ast.walk(ast.parse(inspect.getsource(transfer._linear))) if isinstance(n, ast.MatchValue)]
    assert {"Linear.NONE"} | {ast.unparse(case.value) for case in cases} == {
        str(f"Linear.{one.name}") for one in Linear
    }


def test_roles_are_those_of_opcodes_of_the_table():
    opcodes = {row.opcode for row in isa.table().rows}
    named = [opcode for names in OPCODES.values() for opcode in names.split()]
    assert set(named) <= opcodes
    assert len(named) == len(set(named))
    assert set(OPCODES) | {isa.Role.NONE} == set(isa.Role)


def test_units_are_those_of_rows():
    assert {row.cost for row in isa.table().rows} == set(COSTS)


def test_operands_have_types_or_placeholders_of_the_syntax():
    wrong = []
    for row in isa.table().rows:
        placeholders = {name for part, _ in row.parts for name in part if name in row.where}
        for letter in (letter for operand in row.operands for letter in operand.split("|") if letter in row.types):
            type_ = row.types[letter].removeprefix("2*")
            named = all(re.fullmatch(r"pred|([busf]|bf|tf)\d+(x2)?", each) for each in type_.split("|"))
            if type_ not in placeholders and not named:
                wrong.append(f"{row.syntax}: operand {letter} has the type {type_!r}")
    assert wrong == []


@pytest.mark.parametrize("wrong", [{"kind": "special"}, {"linear": "widen"}, {"cost": "cheap"}])
def test_a_row_of_no_kind_is_refused(wrong):
    with pytest.raises(AssertionError, match=r"add\.u32"):
        isa.Row("add.u32 d, a, b;", "9.7.1.1", lambda: None, **wrong)
