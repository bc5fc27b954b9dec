"""Operands a size too small or too big: our verdict against the vendor's assembler's, for the forms of the table."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import vendor

from tilewright.errors import PtxError
from tilewright.simulate import isa
from tilewright.simulate.isa import Form, Row
from tilewright.simulate.isa.textures import COORDINATES
from tilewright.simulate.ptx import parse
from tilewright.simulate.translate.analysis.graph import make_op

#: Operands that are numbers in the program.
CONSTANTS = {"immLut": "0x1f", "size": "128", "bytes": "16", "groups": "1", "selector": "0", "ord": "1", "initial": "0",
             "apart": "16", "shrinks": "3", "align": "8"}  # fmt: skip
#: Their operands are labels, functions or literals; the editions asked do not have wgmma (`test_warpgroups.py` asks).
WITHOUT_REGISTERS = {"bra", "brx", "call", "pmevent", "setmaxnreg", "wgmma"}
#: Loads and stores have up to 700,000 forms a row, all others fewer than this.
FORMS_MOST = 3000


@dataclass(frozen=True)
class Case:
    """An instruction whose registers fit (`operand` is ""), or one of whose operands has another width."""

    form: str
    operand: str
    line: str


def names_of(row: Row, most: int) -> Iterable[str]:
    """Names of a row's forms: all of them, or so many drawn with a fixed seed."""
    if math.prod(map(len, row.choices)) <= most:
        return row.forms()
    rng = random.Random(row.syntax)
    drawn = {}
    for _ in range(most):  # few optional parts at a time: not every combination is a form of the assembler's
        parts = [rng.choice(part) if part[0] or rng.random() < 0.3 else "" for part in row.choices]
        drawn[row.opcode + "".join(parts)] = None
    return drawn


def width_of(form: Form, name: str, *, address: bool) -> int:
    """The width that the manual's type of an operand has."""
    type_ = "u64" if address and name not in form.row.types else form.type_of(name).rpartition("|")[2]
    return 1 if type_ == "pred" else math.prod(map(int, re.findall(r"\d+", type_)))


def pieces_of(row: Row) -> list[str]:
    """The operands' names and what stands between them, nothing left out but what goes with a part of d alone."""
    text = re.sub(r"\{, c\}" if "{.dsel}" in row.operand_text else r"\{[!\[\]]\}", "", row.operand_text)
    text = re.sub(r"\{\.\w+\}|\{-\}", "", text)
    return re.findall(r"\w+|[^\w\s]", re.sub(r"\{([|,] ?\w+)\}", r"\1", text))


def line_of(form: Form, changed: int = -1, width: int = 0) -> str:
    """The instruction, with another width for the operand that is piece number `changed`."""
    text = ""
    for number, piece in enumerate(pieces_of(form.row)):
        if not piece[0].isalpha():
            text += piece
        elif piece in CONSTANTS:
            text += CONSTANTS[piece]
        else:
            bits = width if number == changed else width_of(form, piece, address=text.endswith("["))
            count = 0 if text.endswith("[") else form.lists.get(piece, 0)
            registers = ", ".join(vendor.register(bits, (number + i) % 9) for i in range(count or 1))
            text += f"{{{registers}}}" if count else registers
            if piece == "tensor":
                axes = ", ".join(vendor.register(32, i) for i in range(int(form["dim"][:1] or 1)))
                text += f", {{{axes}}}"
            elif piece in ("texture", "surface"):
                axes = ", ".join(vendor.register(32, i) for i in range(COORDINATES[form["geom"]]))
                text += f", {{{axes}}}"
    return f"{form.name} {text};"


def cases_of(form: Form) -> Iterator[Case]:
    """The form as it should be, and each operand a width below and above."""
    yield Case(form.name, "", line_of(form))
    pieces = pieces_of(form.row)
    for number, piece in enumerate(pieces):
        if piece[0].isalpha() and piece not in CONSTANTS:
            at = vendor.WIDTHS.index(width_of(form, piece, address=pieces[number - 1] == "["))
            for other in (at - 1, at + 1):
                if piece == "tensor" and vendor.WIDTHS[at] == 64 and other > at:
                    continue  # the assembler takes 128 bits for the address of a tensor map, which no manual says
                if 0 <= other < len(vendor.WIDTHS):
                    yield Case(form.name, piece, line_of(form, number, vendor.WIDTHS[other]))


def refused_here(cases: list[Case]) -> dict[int, str]:
    """Indices of the instructions that this machine refuses."""
    function = parse(vendor.kernel([case.line for case in cases])).functions["k"]
    found = {}
    for index, instruction in enumerate(function.body):
        try:
            make_op(instruction, function.registers, "k.ptx")
        except PtxError as error:
            found[index] = str(error)
    return found


def answers(cases: list[Case], folder: Path) -> dict[int, str]:
    """The assembler's reasons for refusing an instruction, "" where it takes it, by index.

    A name that no edition takes with the right registers is no form, whatever a row spells, and has no answers.
    """
    found: dict[int, str] = {}
    waiting = list(range(len(cases)))
    for edition in (vendor.NEWEST, vendor.NARROW, vendor.OLDEST):
        refused = vendor.refusals([cases[i].line for i in waiting], folder, edition)
        known = {cases[i].form for k, i in enumerate(waiting) if not cases[i].operand and k not in refused}
        found |= {i: refused.get(k, "") for k, i in enumerate(waiting) if cases[i].form in known}
        waiting = [i for i in waiting if cases[i].form not in known]
    return found


@pytest.mark.skipif(not vendor.present(), reason="not run: the vendor's assembler is not installed")
@pytest.mark.parametrize("most", [12, pytest.param(FORMS_MOST, marks=pytest.mark.volume)])
def test_operands_of_another_width(most, tmp_path):
    table = isa.table()
    rows = [row for row in table.rows if row.opcode not in WITHOUT_REGISTERS]
    forms = {
        name: form for row in rows for name in names_of(row, most) if (form := table.find(name)) and form.row is row
    }
    cases = [case for form in forms.values() for case in cases_of(form)]
    here, there = refused_here(cases), answers(cases, tmp_path)
    differ = [
        f"{cases[i].line} here: {here.get(i, 'taken')}; there: {reason or 'taken'}"
        for i, reason in there.items()
        if (i in here) != bool(reason)
    ]
    assert not differ, "\n".join(differ[:40])
    compared = {forms[cases[i].form].row.syntax for i in there}
    assert {row.syntax for row in rows} == compared, "rows of which no form was compared"
