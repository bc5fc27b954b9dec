"""Every form in which lanes see each other, under full, partial and single-lane masks."""

from __future__ import annotations

import random
import zlib

import numpy as np
import oracle_warp
import pytest
from harness import LITERAL, Compiled, forms_of, from_array, sample, signature, to_array

from tilewright.simulate.isa import shuffle, warp

FULL = 0xFFFFFFFF
GROUPS = 48
#: Literal operands of shuffles as compilers write them, and unusual ones.
SHUFFLES = [(1, 0x1F), (16, 0x1F), (0, 0), (1, 0), (31, 0x1F), (5, 0x181F), (3, 0x1C03), (33, 0x1F), (7, 0x0A15)]


def executing_masks(rng: random.Random) -> list[int]:
    """Full, one lane, halves, and random ones."""
    masks = [FULL, 1, 1 << 31, 0xFFFF, 0xFFFF0000, 0x55555555, 0x80000001]
    return masks + [rng.getrandbits(32) | 1 << rng.randrange(32) for _ in range(GROUPS - len(masks))]


def member_masks(rng: random.Random, mask: int) -> list[int]:
    """One mask for all lanes, or two groups with a mask each."""
    part = rng.choice([0xFFFF, 0x0F0F0F0F, rng.getrandbits(32)])
    if rng.random() < 0.5:
        return [rng.choice([FULL, mask])] * 32
    return [part if part >> lane & 1 else ~part & FULL for lane in range(32)]


def operands(form, rng: random.Random, masks: list[int]) -> list[list[int]]:
    """Values for every source; repeated within a group now and then, so that matches and votes happen."""
    types = signature(form)
    columns = sample(types.source_types, rng, 32 * len(masks))
    for name, column in zip(types.sources, columns, strict=True):
        for g, mask in enumerate(masks):
            group = slice(32 * g, 32 * g + 32)
            if name == "membermask":
                column[group] = member_masks(rng, mask)
            elif g % 3 == 0:
                column[group] = [column[32 * g]] * 32
            elif g % 3 == 1:
                column[group] = [rng.choice(column[32 * g : 32 * g + 4]) for _ in range(32)]
    return columns


def seen(columns, shape, literals):
    """The values the lanes of each group hold in a shape."""
    if shape == LITERAL:
        return [columns[0], *([v] * len(columns[0]) for v in literals)]
    if shape == "mixed":
        return [columns[0], *([c[i - i % 32] for i in range(len(c))] for c in columns[1:])]
    return columns


def disagreements(compiled, form, shape, rng, literals=()):
    masks = executing_masks(rng)
    columns = operands(form, rng, masks)
    types = signature(form)
    arrays = [to_array(c, t) for c, t in zip(columns, types.source_types, strict=True)]
    outputs = [from_array(a) for a in compiled.run(form.name, shape, arrays, np.array(masks, "<u4"))]
    columns = seen(columns, shape, literals) if columns else []
    oracle = getattr(oracle_warp, f"oracle_{form.row.opcode}")
    found = []
    for g, mask in enumerate(masks):
        executing = oracle_warp.named(mask)
        expected = oracle(form.name, executing, *(c[32 * g : 32 * g + 32] for c in columns))
        members = [FULL] * 32
        if types.sources[-1:] == ("membermask",):
            members = columns[-1][32 * g : 32 * g + 32]
        # The manual leaves undefined what a lane gets that executes and is not in its own member mask.
        for lane in (lane for lane in sorted(executing) if members[lane] >> lane & 1):
            got, wanted = [o[32 * g + lane] for o in outputs], [e[lane] for e in expected]
            if got != wanted:
                found.append(f"{form.name} {shape} mask {mask:#x} lane {lane}: {got}, must be {wanted}")
    return found[:3]


@pytest.mark.parametrize("shape", ["vector", "mixed"])
def test_every_form_agrees_with_its_oracle(shape):
    forms = forms_of(warp.rows) + forms_of(shuffle.rows)
    compiled = Compiled(forms, [shape])
    found = []
    for form in forms:
        found += disagreements(compiled, form, shape, random.Random(zlib.crc32(form.name.encode())))
    assert not found, "\n".join(found[:30])


@pytest.mark.parametrize("operand", SHUFFLES)
def test_shuffles_with_literal_operands(operand):
    forms = forms_of(shuffle.rows)
    literals = {form.name: (*operand, FULL)[: len(signature(form).sources) - 1] for form in forms}
    compiled = Compiled(forms, [LITERAL], literals=literals)
    found = []
    for form in forms:
        found += disagreements(compiled, form, LITERAL, random.Random(operand[0]), literals[form.name])
    assert not found, "\n".join(found[:30])


@pytest.mark.parametrize("members", [FULL, 0x0000FFFF])
def test_literal_member_masks(members):
    forms = [f for f in forms_of(warp.rows) if signature(f).sources[1:] == ("membermask",)]
    compiled = Compiled(forms, [LITERAL], literals={f.name: (members,) for f in forms})
    found = []
    for form in forms:
        found += disagreements(compiled, form, LITERAL, random.Random(3), (members,))
    assert not found, "\n".join(found[:30])
