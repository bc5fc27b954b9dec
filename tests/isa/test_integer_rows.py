"""Every form of the integer, logic, comparison and move rows against its oracle, in every shape."""

from __future__ import annotations

import importlib
import random
import zlib
from dataclasses import replace

import levels
import pytest
from harness import LITERAL, SHAPES, Compiled, differences, forms_of, sample, signature

from tilewright.simulate import isa
from tilewright.simulate.isa import logic

#: Table module -> the module with its oracles, one `oracle_<opcode>` each.
ORACLES = {
    "integer": "oracle_integer",
    "integer_bits": "oracle_integer_bits",
    "integer_carry": "oracle_integer_carry",
    "logic": "oracle_logic",
    "compare": "oracle_compare",
    "move": "oracle_move",
}
#: Kinds that have no meaning of their own: the translator places them, and tests of whole programs cover them.
PLACED = {"cvta", "isspacep"}


def lane_forms(module: str):
    """The forms of a module that each lane executes by itself."""
    rows = importlib.import_module(f"tilewright.simulate.isa.{module}").rows
    return [form for form in forms_of(rows) if form.row.kind not in PLACED]


def tried(form) -> bool:
    """All forms, but half of the thousands of comparisons; `make volume` tries all of them."""
    return levels.WHOLE or form.row.opcode not in {"set", "setp"} or zlib.crc32(form.name.encode()) % 16 < 8


def oracle_for(module: str, opcode: str):
    return getattr(importlib.import_module(ORACLES[module]), f"oracle_{opcode}")


def shapes_for(form) -> tuple[str, ...]:
    """Every shape, but one for each of the thousands of comparisons, which share their code."""
    every = (*SHAPES, LITERAL)
    if form.row.opcode not in {"set", "setp"}:
        return every
    return (every[zlib.crc32(form.name.encode()) % len(every)],)


@pytest.mark.parametrize("module", ORACLES)
def test_every_form_agrees_with_its_oracle(module):
    forms = [form for form in lane_forms(module) if tried(form)]
    columns, literals = {}, {}
    for form in forms:
        rng = random.Random(zlib.crc32(form.name.encode()))
        count = 64 if form.row.opcode in {"set", "setp"} else levels.share(192)
        columns[form.name] = sample(signature(form).source_types, rng, count)
        literals[form.name] = [rng.choice(column) for column in columns[form.name][1:]]
    compiled = Compiled(forms, shapes_for, literals=literals)
    found = []
    for form in forms:
        oracle = oracle_for(module, form.row.opcode)
        for shape in shapes_for(form):
            found += differences(compiled, form, shape, columns[form.name], oracle)
    assert not found, "\n".join(found[:40])


def test_lop3_has_every_function():
    """A literal table is expanded to a formula: all 256 of them."""
    form = logic.rows.find("lop3.b32")
    columns = [[0b11110000 * 0x01010101], [0b11001100 * 0x01010101], [0b10101010 * 0x01010101]]
    columns = [column * 32 for column in columns]
    named = [replace(form, name=f"{form.name} {lut}") for lut in range(256)]
    literals = {one.name: (columns[1][0], columns[2][0], lut) for lut, one in enumerate(named)}
    compiled, found = Compiled(named, [LITERAL], literals=literals), []
    for lut, one in enumerate(named):
        found += differences(compiled, one, LITERAL, [*columns, [lut] * 32], oracle_for("logic", "lop3"))
    assert not found, "\n".join(found[:40])


@pytest.mark.parametrize("amount", [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 0x7FFFFFFF, 0xFFFFFFFF])
def test_shifts_by_literals_clamp(amount):
    names = [f"shl.b{w}" for w in (16, 32, 64)] + [f"shr.{t}{w}" for t in "bus" for w in (16, 32, 64)]
    forms = [logic.rows.find(name) for name in names]
    compiled = Compiled(forms, [LITERAL], literals=dict.fromkeys(names, (amount,)))
    found = []
    for form in forms:
        columns = sample(signature(form).source_types, random.Random(1), 64)
        found += differences(compiled, form, LITERAL, columns, oracle_for("logic", form.row.opcode))
    assert not found, "\n".join(found[:40])


#: Modules whose forms are tested elsewhere: in which test module.
ELSEWHERE = {
    "warp": "test_warp_rows",
    "video": "test_video",
    "shuffle": "test_warp_rows",
    "atomic": "test_atomic_rows",
    "matrix_moves": "test_matrix_moves",
    "mbarrier": "test_mbarriers",
    "cluster": "test_mbarriers",
    "float": "test_float",
    "half": "test_half",
    "extrema": "test_half",
    "approximate": "test_float_approximate",
    "convert": "test_convert",
    "convert_packed": "test_convert_packed",
}


def test_no_module_of_the_table_is_untested():
    """A module that joins the table brings its oracle, or holds only rows that the translator places."""
    for module in isa.MODULES:
        if module in ORACLES:
            continue
        if module in ELSEWHERE:
            assert importlib.import_module(ELSEWHERE[module])
            continue
        rows = importlib.import_module(f"tilewright.simulate.isa.{module}").rows.rows
        assert not {row.kind for row in rows} & {"lane", "carry", "warp", "atomic"}, module
