"""Atomic forms in PTX text: on global and shared memory, at a place for each lane and at one for all."""

from __future__ import annotations

import random
import zlib

import levels
import numpy as np
import pytest
from harness import array_type, forms_of, from_array, sample, signature, to_array
from oracle_atomic import new_value
from ptx_batch import register_kind
from test_atomic_rows import mismatches

from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate.isa import atomic

MASK = 0xF00FA5A3
LANES = 32


def plain_forms():
    """Each operation and type, without qualifiers that do not change values."""
    for form in forms_of(atomic.rows):
        if not form["sem"] and not form["scope"] and not form.has("L2::cache_hint"):
            if not form["space"] or (form["space"] == "global" and form["type"] == "f32"):
                yield form


FORMS = {form.name: form for form in plain_forms()}


def kernel_text(form, per_lane: bool, shared: bool) -> str:
    """One atomic a lane: memory is copied to shared first when asked; the old value goes to `olds`."""
    types = signature(form)
    kind, width = register_kind(types.destination_types[0]), array_type(types.destination_types[0]).itemsize
    count = len(types.destinations)
    operands = len(types.sources) // count
    stride = width * count if per_lane else 0
    names = [f"{kind[0]}{i}" for i in range(operands * count)]
    olds = [f"{kind[0]}{i}" for i in range(100, 100 + count)]

    def group(registers):
        return registers[0] if count == 1 else "{" + ", ".join(registers) + "}"

    sources = ", ".join(group(names[j * count : (j + 1) * count]) for j in range(operands))
    loads = "\n".join(f"ld.global.{kind[1]} {name}, [%b+{i * width * LANES}];" for i, name in enumerate(names))
    stores = "\n".join(f"st.global.{kind[1]} [%olds+{i * width * LANES}], {old};" for i, old in enumerate(olds))
    result = f"{group(olds)}, " if form.row.opcode == "atom" else ""
    copy = f"ld.global.{kind[1]} {kind[0]}99, [%memory]; st.shared.{kind[1]} [%place], {kind[0]}99;"
    back = f"ld.shared.{kind[1]} {kind[0]}99, [%place]; st.global.{kind[1]} [%memory], {kind[0]}99;"
    name = form.row.opcode + ".shared" * shared + form.name.removeprefix(form.row.opcode)
    return f""".version 8.7
.target sm_100
.address_size 64
.visible .entry one(.param .u64 p_memory, .param .u64 p_b, .param .u64 p_olds) {{
.reg .pred %run; .reg .b16 %h<200>; .reg .b32 %r<200>; .reg .b64 %l<200>; .reg .f32 %f<200>; .reg .f64 %d<200>;
.reg .b128 %q<200>;
.reg .b32 %lane, %mask, %place; .reg .b64 %memory, %b, %olds;
.shared .align 16 .b8 tile[1024];
ld.param.u64 %memory, [p_memory]; ld.param.u64 %b, [p_b]; ld.param.u64 %olds, [p_olds];
mov.u32 %lane, %tid.x; mad.wide.u32 %memory, %lane, {stride}, %memory; mad.wide.u32 %b, %lane, {width}, %b;
mad.wide.u32 %olds, %lane, {width}, %olds; mov.u32 %place, tile; mad.lo.u32 %place, %lane, {stride}, %place;
shr.u32 %mask, {MASK:#x}, %lane; and.b32 %mask, %mask, 1; setp.ne.u32 %run, %mask, 0;
{loads}
{copy if shared else ""}
bar.sync 0;
@!%run bra after;
{name} {result}[{"%place" if shared else "%memory"}], {sources};
{stores if result else ""}
after:
bar.sync 0;
{back if shared else ""}
ret;
}}
"""


def run(form, columns, memory, *, per_lane: bool, shared: bool):
    """Memory afterwards, and the old values of each element."""
    types = signature(form)
    kind = array_type(types.destination_types[0])
    block = to_array(memory, types.destination_types[0]).view(np.uint8)
    inputs = np.concatenate([to_array(c, t).view(np.uint8) for c, t in zip(columns, types.source_types, strict=True)])
    olds = np.zeros(len(types.destinations) * LANES * kind.itemsize, np.uint8)
    text = kernel_text(form, per_lane, shared)
    launch(Program.from_ptx(text), 1, LANES, (block, inputs, olds))
    flat = from_array(olds.view(kind))
    return from_array(block.view(kind)), [flat[i * LANES : (i + 1) * LANES] for i in range(len(types.destinations))]


@pytest.mark.parametrize("name", FORMS)
def test_each_lane_on_its_own_place(name):
    form = FORMS[name]
    types, rng = signature(form), random.Random(zlib.crc32(name.encode()))
    count = len(types.destinations)
    columns = sample(types.source_types, rng, LANES)
    memory = sample(types.destination_types[:1], rng, LANES * count)[0]
    if ".cas." in name:
        columns[0] = [m if i % 2 else c for i, (m, c) in enumerate(zip(memory, columns[0], strict=True))]
    # an mbarrier counts red.async on other memory than global, so this is another instruction.
    spaces = (False, True) if not form["space"] and not form["vec"] and ".async" not in name else (False,)
    # Every form computes its address in the same way, so `make test` runs half of them in either memory.
    for shared in spaces if levels.WHOLE else spaces[zlib.crc32(name.encode()) % len(spaces) :][:1]:
        after, olds = run(form, columns, memory, per_lane=True, shared=shared)
        if form.row.opcode == "red":
            olds = [memory[k::count] for k in range(count)]
        lanes = [i for i in range(LANES) if MASK >> i & 1]
        idle = [i * count + k for i in range(LANES) if not MASK >> i & 1 for k in range(count)]
        assert [after[i] for i in idle] == [memory[i] for i in idle]
        kept = [i * count + k for i in lanes for k in range(count)]
        found = mismatches(
            form,
            [memory[i] for i in kept],
            [after[i] for i in kept],
            [[old[i] for i in lanes] for old in olds],
            [[column[i] for i in lanes] for column in columns],
        )
        assert not found, "\n".join(found)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", ["atom.add.u32", "atom.min.s32", "atom.exch.b64", "atom.inc.u32", "atom.xor.b32"])
def test_all_lanes_on_one_place(name, shared):
    form = FORMS[name]
    t = signature(form).source_types[0]
    columns = sample([t], random.Random(5), LANES)
    after, olds = run(form, columns, [7] * LANES, per_lane=False, shared=shared)
    value = 7
    for lane in range(LANES):
        if MASK >> lane & 1:  # lanes take their turn in order, so that a run can be repeated
            assert olds[0][lane] == value
            value = new_value(name, value, columns[0][lane])[0][1]
    assert after[0] == value
