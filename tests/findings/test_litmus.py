"""The checker's verdict on each litmus test is the memory model's, and no launch shows what the model forbids."""

from __future__ import annotations

import litmus
import pytest
from litmus import Row, placed

from tilewright.programs import Program

#: Codes of races; a race-free test must give no finding at all.
_RACES = ("TW30", "TW310", "TW411", "TW412")
ROWS = litmus.rows()
ORDERED = [row for row in ROWS if row.forbidden]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_races_is_reported_and_nothing_else(row: Row) -> None:
    text = litmus.module(placed(row))
    for test in placed(row):
        found, outcome = litmus.codes(Program.from_ptx(text, test.name), test)
        assert not test.shown(outcome), (test.name, outcome)
        assert {code for code in found if not code.startswith(_RACES)} == set(), test.name
        assert bool(found) == test.racy or row.missed or row.mistaken, (test.name, found, row.why)


@pytest.mark.parametrize("row", ORDERED, ids=lambda row: row.name)
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 50), marks=pytest.mark.volume)], ids=str)
def test_no_launch_shows_what_the_model_forbids(row: Row, seeds: range) -> None:
    text = litmus.module(placed(row))
    for test in placed(row):
        if test.in_scope:
            program = Program.from_ptx(text, test.name)
            for seed in seeds:
                outcome = litmus.outcome(program, test, seed)
                assert not test.shown(outcome), (test.name, seed, outcome, row.why)


def test_the_table_has_every_kind_of_test_with_and_without_a_race() -> None:
    racy, free = ([t for row in ROWS for t in placed(row) if t.racy is racy] for racy in (True, False))
    for kind in ("mp", "sb", "lb", "iriw", "corr", "corw", "cowr", "coww", "two_two_w", "r", "s"):
        for some in (racy, free):
            assert any(test.name.startswith(f"{kind}_") for test in some), kind
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert all(row.why.endswith(".") for row in ROWS)


def test_an_outcome_is_compared_with_what_is_forbidden() -> None:
    row = Row("one", ("st.weak x 1",), "", forbidden="r0=1 and r1=0 or x=2")
    seen, beyond = litmus.Litmus(row, "grid", "gpu"), litmus.Litmus(row, "grid", "cta")
    assert seen.shown({"r0": 1, "r1": 0, "x": 1})
    assert seen.shown({"r0": 0, "r1": 0, "x": 2})
    assert not seen.shown({"r0": 1, "r1": 1, "x": 1})
    assert not beyond.shown({"r0": 1, "r1": 0, "x": 2})
