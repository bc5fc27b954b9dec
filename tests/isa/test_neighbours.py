"""Forms that are suggested for one that no row has."""

from __future__ import annotations

import random

import pytest

from tilewright.errors import PtxError
from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate import isa


@pytest.mark.parametrize(
    ("name", "first"),
    [("add.u33", "add.u32"), ("shf.l.clamp.b16", "shf.l.clamp.b32"), ("fma.f32", "fma.rn.f32"),
     ("ld.relaxed.global.u32", "ld.relaxed.cta.global.u32"), ("setp.s32", "setp.eq.s32"), ("bar.sink", "bar.sync"),
     ("atom.local.add.u32", "atom.add.u32"), ("mul.rn.u32", "mul.rn.f32")],
)  # fmt: skip
def test_the_nearest_form_comes_first(name, first):
    assert isa.table().find(name) is None
    assert isa.table().neighbours(name)[0] == first


@pytest.mark.parametrize(
    ("name", "opcode"), [("addd.u32", "add"), ("barier.sync", "barrier"), ("exi", "exit"), ("lop.b32", "lop3")]
)
def test_a_misspelt_opcode(name, opcode):
    assert [text.split(".")[0].split("{")[0] for text in isa.table().neighbours(name)] == [opcode]


@pytest.mark.parametrize(
    "name",
    ["multimem.red.add.u32",
     "suq.width", "istypep.texref", "frobnicate"],
)  # fmt: skip
def test_another_instruction_is_no_neighbour(name):
    assert isa.table().neighbours(name) == []


@pytest.mark.parametrize("row", isa.table().rows, ids=lambda row: row.syntax)
def test_what_a_row_spells_is_found(row):
    rng = random.Random(row.syntax)
    for _ in range(30):
        name = row.opcode + "".join(map(rng.choice, row.choices))
        assert isa.table().find(name), name


def test_suggestions_are_forms():
    table, rng = isa.table(), random.Random(20)
    opcodes = sorted({row.opcode for row in table.rows})
    parts = sorted({part for row in table.rows for choice in row.choices for part in choice} | {".u33", ".x", ".both"})
    for _ in range(2000):
        name = rng.choice(opcodes) + "".join(rng.choices(parts, k=rng.randrange(6)))
        if table.find(name) is None:
            near = table.neighbours(name)
            assert near, name
            assert all(table.find(form) for form in near), (name, near)


@pytest.mark.parametrize("line", ["addd.u32 %r1, %r1, 1;", "add.u33 %r1, %r1, 1;", "mma.sync %r1;"])
def test_the_message_has_one_mark_between_forms(line):
    text = f".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{ .reg .b32 %r<2>;\n{line}\nret; }}\n"
    with pytest.raises(PtxError, match=r"kernel\.ptx:6: '.*' is not implemented; known forms: ") as raised:
        launch(Program.from_ptx(text), 1, 1, ())
    assert ";;" not in str(raised.value) and not str(raised.value).endswith(";")
