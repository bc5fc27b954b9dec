"""The order of a name's dotted parts: what the vendor's assembler takes, and what the table finds."""

from __future__ import annotations

import itertools
import random

import pytest
import vendor
from test_operand_widths import WITHOUT_REGISTERS, line_of, names_of

from tilewright.simulate import isa

#: Orders of one name that are tried; more parts have more.
_ORDERS = 48
#: Where the parts that stand first in these names come elsewhere, the assembler ends: only the others are reordered.
_ENDS = {"cp", "suld", "sust", "tex", "tld4", "wmma"}


def orders_of(name: str, most: int) -> list[str]:
    """Other orders of a name's parts: all, or so many drawn with a fixed seed."""
    opcode, *parts = name.split(".")
    rng = random.Random(name)
    if len(parts) < 5:
        found = list(itertools.permutations(parts))
        rng.shuffle(found)
    else:
        found = [tuple(rng.sample(parts, len(parts))) for _ in range(most)]
    names = dict.fromkeys(".".join((opcode, *order)) for order in found)
    return [other for other in names if other != name][:most]


def forms(most: int) -> list[isa.Form]:
    """Forms of every row that have parts to reorder."""
    table = isa.table()
    rows = [row for row in table.rows if row.opcode not in WITHOUT_REGISTERS and row.fixed < len(row.parts)]
    found = [table.find(name) for row in rows for name in random.Random(7).sample(list(names_of(row, 40))[:40], 1)]
    if most > 1:
        found = [table.find(name) for row in rows for name in list(names_of(row, most))[:most]]
    return list({form.name: form for form in found if form.name.count(".") > 1}.values())


@pytest.mark.skipif(not vendor.present(), reason="not run: the vendor's assembler is not installed")
@pytest.mark.parametrize("most", [1, pytest.param(24, marks=pytest.mark.volume)])
def test_orders_are_those_that_the_assembler_takes(most, tmp_path):
    table, waiting, differ, compared = isa.table(), forms(most), [], 0
    for edition in (vendor.NEWEST, vendor.NARROW, vendor.OLDEST):
        refused = vendor.refusals([line_of(form) for form in waiting], tmp_path, edition)
        known = [form for index, form in enumerate(waiting) if index not in refused]
        waiting = [form for index, form in enumerate(waiting) if index in refused]
        cases = []
        for form in known:
            operands = line_of(form)[len(form.name) :]
            for other in orders_of(form.name, _ORDERS):
                first = form.row.fixed + 1 if form.row.opcode in _ENDS else 0
                if other.split(".")[:first] != form.name.split(".")[:first]:
                    continue
                found = table.find(other)
                if found is None or found.name == form.name:  # with its types exchanged it is another form
                    cases.append((other, operands))
        refused = vendor.refusals([name + operands for name, operands in cases], tmp_path, edition)
        for index, (name, operands) in enumerate(cases):
            compared += 1
            if (table.find(name) is None) != (index in refused):
                differ.append(f"{name}{operands} here: {table.find(name)}; there: {refused.get(index, 'taken')}")
    assert not differ, f"{len(differ)} of {compared}:\n" + "\n".join(differ[:40])
    assert compared > 100


@pytest.mark.parametrize(
    ("name", "spelt"),
    [("max.s32.relu", "max.relu.s32"), ("match.sync.any.b32", "match.any.sync.b32"),
     ("vote.ballot.sync.b32", "vote.sync.ballot.b32"), ("atom.add.acquire.gpu.u64", "atom.acquire.gpu.add.u64"),
     ("ld.u32.volatile.global", "ld.volatile.global.u32"), ("add.f32.sat.ftz.rz", "add.rz.ftz.sat.f32"),
     ("setp.s32.lt.and", "setp.lt.and.s32"), ("cvt.f32.f64.rn", "cvt.rn.f32.f64"), ("shf.l.b32.wrap", "shf.l.wrap.b32"),
     ("mad.hi.u32.cc", "mad.hi.cc.u32")],
)  # fmt: skip
def test_a_form_is_named_in_the_manuals_order(name, spelt):
    assert isa.table().find(name).name == isa.table().find(spelt).name == spelt


@pytest.mark.parametrize(
    "name",
    ["mul.u32.lo", "cvta.global.to.u64", "mad.u32.hi.cc", "shf.wrap.l.b32", "bar.popc.red.u32",
     "add.u32.u32", "add.ftz.f32.ftz", "cvt.f64.rn.f32"],
)  # fmt: skip
def test_what_the_assembler_refuses_is_no_form(name):
    assert isa.table().find(name) is None
