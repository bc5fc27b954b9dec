"""Atomic forms: their results in memory and registers, and parallel updates, none of which may be lost."""

from __future__ import annotations

import random
import threading
import zlib

import levels
import numpy as np
import pytest
from harness import CONTENDED, Compiled, array_type, forms_of, from_array, sample, signature, to_array
from oracle_atomic import is_nan, new_value

from tilewright.simulate.isa import atomic
from tilewright.simulate.isa.table import Form

QUALIFIERS = ("sem", "scope", "space")


def covering(forms: list[Form]) -> list[Form]:
    """For each row, operation, vector and type, forms that together have every value of every qualifier.

    Forms differ only in these, and there are more than ten thousand.
    """
    seen: set[tuple[str, ...]] = set()
    chosen = []
    for form in forms:
        core = (form.row.syntax, form["op"], form["vec"], form["type"])
        news = {(*core, name, form[name]) for name in QUALIFIERS} - seen
        if news:
            seen |= news
            chosen.append(form)
    return chosen


FORMS = covering(forms_of(atomic.rows))


def test_the_chosen_forms_show_every_qualifier_of_every_row():
    for row in atomic.rows.rows:
        mine = [form for form in FORMS if form.row == row]
        for name in ("sem", "scope", "space", "op", "vec", "type"):
            placeholder = f".{name}"
            if placeholder in row.syntax:
                assert set(row.where[name]) <= {form[name] for form in mine}, (row.syntax, name)


def mismatches(form: Form, memory: list[int], after: list[int], olds, columns) -> list[str]:
    """Where memory or the returned value differs from the oracle."""
    types = signature(form)
    count, found = len(types.destinations), []
    for i in range(len(columns[0])):
        for k in range(count):
            place = i * count + k
            operands = [columns[j][i] for j in range(k, len(columns), count)]
            if olds[k][i] != memory[place]:
                found.append(f"{form.name}: gave back {olds[k][i]:#x}, memory held {memory[place]:#x}")
            for position, wanted, t in new_value(form.name, memory[place], *operands):
                bits = array_type(t).itemsize * 8
                got = after[place] >> position & ((1 << bits) - 1)
                if got != wanted and not (wanted is None and is_nan(got, t)):
                    shown = [hex(v) for v in (memory[place], *operands)]
                    found.append(f"{form.name} {shown}: left {got:#x}, must be {wanted}")
    return found[:3]


@pytest.mark.parametrize("opcode", ["atom", "red"])
def test_every_form_agrees_with_its_oracle(opcode):
    forms = [form for form in FORMS if form.row.opcode == opcode]
    compiled, seen = Compiled(forms, ["scalar"]), set()
    found = []
    for form in forms:
        core = (form.row.syntax, form["op"], form["vec"], form["type"])
        # Another form with other qualifiers has the same code, so a few values are enough.
        count = 64 if levels.WHOLE or core not in seen else 16
        seen.add(core)
        types, rng = signature(form), random.Random(zlib.crc32(form.name.encode()))
        columns = sample(types.source_types, rng, count)
        elements = [sample(types.destination_types[:1], rng, count)[0] for _ in types.destinations]
        memory = [value for group in zip(*elements, strict=True) for value in group]
        if ".cas." in form.name:
            columns[0] = [m if rng.random() < 0.5 else c for m, c in zip(memory, columns[0], strict=True)]
        # 128-bit exchanges need 16-byte alignment, which NumPy does not promise.
        block = np.zeros(len(memory) + 1, array_type(types.destination_types[0]))
        start = block.ctypes.data % block.itemsize
        place = block.view(np.uint8)[block.itemsize - start if start else 0 :][: len(memory) * block.itemsize]
        place[:] = to_array(memory, types.destination_types[0]).view(np.uint8)
        arrays = [to_array(c, t) for c, t in zip(columns, types.source_types, strict=True)]
        olds = [from_array(a) for a in compiled.run(form.name, "scalar", arrays, place)]
        after = from_array(np.frombuffer(place.tobytes(), block.dtype))
        found += mismatches(form, memory, after, olds, columns)
    assert not found, "\n".join(found[:30])


#: Form, operand, and the amount that each of 50,000 updates adds to memory.
CONTESTED = {
    "atom.add.u32": (3, 3),
    "red.add.u64": (5, 5),
    "atom.inc.u32": (0xFFFFFFFF, 1),
    "atom.add.f32": (0x3F800000, 1.0),
    "red.global.add.f32": (0x3F800000, 1.0),
    "red.add.f64": (0x3FF0000000000000, 1.0),
    "atom.add.noftz.f16": (0x0001, 1),
    "atom.add.noftz.bf16x2": (0x00010001, 0x00010001),
}


@pytest.mark.parametrize("name", CONTESTED)
def test_threads_do_not_lose_updates(name):
    operand, step = CONTESTED[name]
    form = atomic.rows.find(name)
    t = signature(form).source_types[0]
    # Subnormal 16-bit floats count in integers until their exponent changes: fewer updates for them.
    count = 400 if "noftz" in name and "f16" in name else 50_000
    count = 50 if "bf16" in name else count
    compiled = Compiled([form], [CONTENDED])
    memory = np.zeros(2, np.uint64)
    operands = [np.full(count, operand, array_type(t))]
    threads = [threading.Thread(target=compiled.run, args=(name, CONTENDED, operands, memory)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kind = {"f32": np.float32, "f64": np.float64}.get(t, array_type(t))
    assert memory.view(kind)[0] == 2 * count * step
