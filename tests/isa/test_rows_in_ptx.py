"""Integer, logic, comparison, move and warp forms in PTX text, with full and partial masks."""

from __future__ import annotations

import random
import zlib

import levels
import oracle_warp
import pytest
from harness import array_type, forms_of, sample, signature
from ptx_batch import SENTINEL, Case, run
from test_integer_rows import ORACLES, lane_forms, oracle_for

from tilewright.simulate.isa import shuffle, table, warp

MASKS = [0xFFFFFFFF, 0x0000FFFF, 0x80000001, 0xAAAAAAAA, 0x00010000, 0]
FORMS_A_ROW = 2


def chosen(module: str, placed: str):
    """A form of every row under a guard, another in a branch; `make volume` has both in either.

    That each form means the right thing is tested without a translator.
    Moves of whole vectors have operands of their own: `test_operand_kinds`.
    """
    rng = random.Random(zlib.crc32(module.encode()))
    by_row = {}
    for form in lane_forms(module):
        if "b128" not in form.name and not form.name.startswith("mov.v"):
            by_row.setdefault(form.row.syntax + str(form.row.where), []).append(form)
    drawn = [rng.sample(forms, min(FORMS_A_ROW, len(forms))) for forms in by_row.values()]
    return [form for forms in drawn for form in (forms if levels.WHOLE else [forms[-(placed == "branch")]])]


def case_for(form, rng: random.Random) -> Case:
    """Operands of every kind: one of each lane, one of the warp, literals."""
    types = signature(form)
    columns = sample(types.source_types, rng, 32 * len(MASKS))
    uniform, literals = set(), {}
    for i, t in enumerate(types.source_types):
        kind = rng.choice(["vector", "vector", "uniform", "literal"])
        if types.sources[i] == "immLut":
            kind = "literal"
            columns[i] = [v & 0xFF for v in columns[i]]
        if kind == "literal" and (t == "pred" or (i == 0 and len(columns) > 1) or t in {"f16", "bf16"}):
            kind = "vector"
        if kind == "uniform":
            columns[i] = [columns[i][j - j % 32] for j in range(len(columns[i]))]
            uniform.add(i)
        if kind == "literal":
            literals[i] = rng.choice(columns[i])
            columns[i] = [literals[i]] * len(columns[i])
    return Case(form, columns, frozenset(uniform), literals)


def untouched(ptx_type: str) -> int:
    return 0 if ptx_type in {"pred", "carry"} else SENTINEL & (1 << array_type(ptx_type).itemsize * 8) - 1


def wrong_lanes(case: Case, expected_of) -> list[str]:
    """Where a lane that executes is wrong, or one that does not was written."""
    types, found = signature(case.form), []
    before = [untouched(t) for t in types.destination_types]
    for i in range(32 * len(MASKS)):
        executes = MASKS[i // 32] >> i % 32 & 1
        got = [column[i] for column in case.results]
        wanted = expected_of(i) if executes else before
        if any(w is not None and w != g for w, g in zip(wanted, got, strict=True)):
            operands = [hex(column[i]) for column in case.columns]
            found.append(f"{case.form.name} mask {MASKS[i // 32]:#x} lane {i % 32} {operands}: {got}, must be {wanted}")
    return found[:2]


@pytest.mark.parametrize("placed", ["guard", "branch"])
@pytest.mark.parametrize("module", ORACLES)
def test_lane_forms(module, placed):
    cases = [case_for(f, random.Random(zlib.crc32((f.name + placed).encode()))) for f in chosen(module, placed)]
    run(cases, MASKS, placed)
    found = []
    for case in cases:
        oracle, carry = oracle_for(module, case.form.row.opcode), case.form.row.kind == "carry"

        def expected(i, case=case, oracle=oracle, carry=carry):
            result = oracle(case.form.name, *(column[i] for column in case.columns))
            result = [int(v) for v in result] if isinstance(result, tuple) else [int(result)]
            if carry and not case.form.has("cc"):
                result[-1] = case.columns[-1][i]  # the flag stays what it was
            return result

        found += wrong_lanes(case, expected)
    assert not found, "\n".join(found[:30])


def warp_case(form, rng: random.Random) -> Case:
    """Lanes' values that agree now and then; member masks name exactly the lanes that execute."""
    types = signature(form)
    columns = sample(types.source_types, rng, 32 * len(MASKS))
    uniform = set()
    for i, name in enumerate(types.sources):
        for g, mask in enumerate(MASKS):
            group = slice(32 * g, 32 * g + 32)
            if name == "membermask":
                columns[i][group] = [mask] * 32
                uniform.add(i)
            elif rng.random() < 0.5:
                columns[i][group] = [rng.choice(columns[i][32 * g : 32 * g + 3]) for _ in range(32)]
    return Case(form, columns, frozenset(uniform))


@pytest.mark.parametrize("placed", ["guard", "branch"])
def test_warp_forms(placed):
    forms = forms_of(warp.rows) + forms_of(shuffle.rows)
    cases = [warp_case(f, random.Random(zlib.crc32((f.name + placed).encode()))) for f in forms]
    # A kernel's translation grows faster than the number of places where lanes can meet: a few forms in each.
    for start in range(0, len(cases), 8):
        run(cases[start : start + 8], MASKS, placed)
    found = []
    for case in cases:
        oracle, answers = getattr(oracle_warp, f"oracle_{case.form.row.opcode}"), []
        for g, mask in enumerate(MASKS):
            columns = [column[32 * g : 32 * g + 32] for column in case.columns]
            answers.append(oracle(case.form.name, oracle_warp.named(mask), *columns))
        found += wrong_lanes(case, lambda i, answers=answers: [int(c[i % 32]) for c in answers[i // 32]])
    assert not found, "\n".join(found[:30])


@pytest.mark.parametrize("placed", ["guard", "branch"])
def test_a_subnormal_bfloat_of_all_lanes_is_no_zero(placed):
    form = table().find("setp.eq.bf16")
    count = 32 * len(MASKS)
    case = Case(form, [([0, 0x8000, 0x8001, 0x3F80] * count)[:count], [0x8001] * count], frozenset({1}))
    run([case], MASKS, placed)
    assert wrong_lanes(case, lambda i: [int(case.columns[0][i] == 0x8001)]) == []
