"""Every form of the integer, logic, comparison and move rows against its oracle, in every shape."""

from __future__ import annotations

import importlib
import random
import zlib

import pytest
from harness import SHAPES, Compiled, differences, forms_of, sample, signature

#: Table module -> the module with its oracles, one `oracle_<opcode>` each.
ORACLES = {
    "integer": "oracle_integer",
}
#: Operand tuples a form is tried on; forms are many and most of them narrow.
COUNT = 192


def lane_forms(module: str):
    """The forms of a module whose meaning concerns each lane for itself."""
    rows = importlib.import_module(f"tilewright.simt.isa.{module}").rows
    return [form for form in forms_of(rows) if form.row.kind in {"lane", "carry"}]


def oracle_for(module: str, opcode: str):
    return getattr(importlib.import_module(ORACLES[module]), f"oracle_{opcode}")


@pytest.mark.parametrize("module", ORACLES)
def test_every_row_has_an_oracle(module):
    missing = {form.row.opcode for form in lane_forms(module)} - {
        name.removeprefix("oracle_") for name in vars(importlib.import_module(ORACLES[module]))
    }
    assert not missing


@pytest.mark.parametrize("module", ORACLES)
def test_every_form_agrees_with_its_oracle(module):
    forms = lane_forms(module)
    compiled = Compiled(forms)
    found = []
    for form in forms:
        rng = random.Random(zlib.crc32(form.name.encode()))
        columns = sample(signature(form).source_types, rng, COUNT)
        for shape in SHAPES:
            found += differences(compiled, form, shape, columns, oracle_for(module, form.row.opcode))
    assert not found, "\n".join(found[:40])
