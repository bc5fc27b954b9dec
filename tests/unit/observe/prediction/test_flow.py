"""How often machine code runs, from counts of PTX; and nonnegative least squares."""

from __future__ import annotations

import itertools

import pytest

from tilewright.observe.prediction import flow, opcodes, walk
from tilewright.observe.prediction.deadline import Deadline
from tilewright.simulate.programs.disassembler import NO_COUNTER, Instruction


def one(opcode: str, line: int = 0, *, guard: str = "", target: int | None = None) -> Instruction:
    return Instruction(opcode, guard, (), line, target, 1, False, NO_COUNTER, NO_COUNTER, 0, 0)


def unrolled(products: int) -> tuple[Instruction, ...]:
    """A loop of so many products a turn, and one of a single product for what is left."""
    rest = products + 2
    return (
        one("BRA", 9, guard="@P0", target=rest),
        *[one("FFMA", 1)] * products,
        one("BRA", 2, guard="@P1", target=1),
        one("BRA", 9, guard="@P2", target=rest + 3),
        one("FFMA", 1),
        one("BRA", 2, guard="@P3", target=rest + 1),
        one("EXIT"),
    )


#: A loop (3 turns of line 2) in a loop (4 turns of line 1), then line 3.
NESTED = (
    one("LDG", 1),
    one("FFMA", 2),
    one("BRA", 12, guard="@P0", target=1),
    one("STG", 13),
    one("BRA", 14, guard="@P1", target=0),
    one("STG", 3),
    one("EXIT"),
)


def path(
    code: tuple[Instruction, ...], executed: dict[int, float], most: int = 10_000, other: frozenset[int] = frozenset()
) -> list[int]:
    """The path by counts of PTX lines, to which the machine instructions belong, except those of `other`."""
    ways = flow.graph(code)
    rows = {one.ptx_line: opcodes.row(one.name).of for one in code if one.ptx_line in executed}
    ptx = {line: "div" if line in other else min(names) for line, names in rows.items() if names}
    found = flow.frequencies(code, ways, executed, ptx, Deadline())
    return walk.walk(ways, found, {}, Deadline(), most).tolist()


def test_loops_turn_as_often_as_counted() -> None:
    found = path(NESTED, {1: 4, 2: 12, 3: 1, 12: 12, 13: 4, 14: 4})
    assert found == [*[0, *[1, 2] * 3, 3, 4] * 4, 5, 6]


def test_lanes_of_a_path_are_together() -> None:
    """`__syncwarp` has a branch for lanes that are apart, to a place behind the kernel's end."""
    code = (
        one("FFMA", 1), one("BRA.DIV", 2, target=5), one("FFMA", 2), one("BRA", 12, guard="@P0", target=0), one("EXIT"),
        one("WARPSYNC", 2), one("BRA", 2, target=2), one("EXIT"),
    )  # fmt: skip
    assert path(code, {1: 3, 2: 3, 12: 3}) == [*[0, 1, 2, 3] * 3, 4]


def test_fractional_turns_are_distributed() -> None:
    found = path(NESTED, {1: 4, 2: 10, 3: 1, 12: 10, 13: 4, 14: 4})
    assert found.count(1) == 10
    assert found.count(0) == 4


def test_a_branch_takes_both_ways_in_proportion() -> None:
    code = (
        one("LDG", 1),
        one("BRA", 2, guard="@P0", target=4),
        one("FFMA", 3),
        one("BRA", target=5),
        one("FADD", 4),
        one("STG", 5),
        one("BRA", 6, guard="@P1", target=0),
        one("EXIT"),
    )
    found = path(code, {1: 8, 2: 8, 3: 2, 4: 6, 5: 8, 6: 8})
    assert (found.count(2), found.count(4), found.count(0)) == (2, 6, 8)
    assert found[-1] == 7


def test_of_equal_loops_the_unrolled_one_runs() -> None:
    """The assembler keeps both: four products a turn, and one a turn for what is left."""
    found = path(unrolled(4), {1: 40, 9: 1})
    assert found.count(7) <= 4
    assert sum(number in (1, 2, 3, 4, 7) for number in found) == pytest.approx(40, abs=3)


def test_a_loop_that_counts_alone_would_not_reach_is_entered() -> None:
    code = (one("BRA", 1, guard="@P0", target=3), one("FFMA", 2), one("BRA", 3, guard="@P1", target=1), one("EXIT"))
    assert path(code, {2: 16, 3: 16}).count(1) == 16


def test_a_loop_is_entered_each_time_and_not_repeated_more_often() -> None:
    """A loop that turned in place would agree with the counts as well."""
    code = (
        one("MOV", 2),
        one("BRA", guard="@P0", target=6),
        one("FFMA", 1),
        one("BRA", guard="@!P1", target=5),
        one("MOV", 3),
        one("BRA", guard="@P1", target=2),
        one("MOV", 4),
        one("BRA", guard="@P3", target=0),
        one("EXIT"),
    )
    found = path(code, {1: 40, 2: 40, 3: 0, 4: 40})
    assert sum(pair == (1, 2) for pair in itertools.pairwise(found)) == found.count(2) == 40


def test_instructions_moved_ahead_of_their_branch_do_not_block_the_path() -> None:
    """Lines 7 to 9 never ran; their instructions are after the branch, and in the block that all warps execute."""
    moved = [one("MOV", line) for line in (7, 8, 9)]
    code = (
        one("MOV", 2),
        one("BRA", guard="@P0", target=12),
        *moved,
        one("MOV", 3),
        one("BRA", guard="@P1", target=10),
        *moved,
        one("FFMA", 1),
        one("BRA", guard="@P2", target=10),
        one("MOV", 4),
        one("BRA", guard="@P3", target=0),
        one("EXIT"),
    )
    found = path(code, {1: 40, 2: 40, 3: 40, 4: 40, 7: 0, 8: 0, 9: 0})
    assert (found.count(0), found.count(2), found.count(7), found.count(10)) == (40, 40, 0, 40)


def test_a_loop_unrolled_by_two_runs_without_its_remainder_loop() -> None:
    """Both agree with the counts in any mixture: the one of fewer instructions is taken, not their mean."""
    found = path(unrolled(2), {1: 40, 9: 1})
    assert (found.count(1), found.count(5)) == (20, 0)


def test_a_loop_off_the_shortest_way_is_entered() -> None:
    """The counts agree with a turning loop that nothing leads to, past which the shorter way goes."""
    code = (
        one("BRA", guard="@P0", target=3),
        one("LDG", 1),
        one("BRA", target=8),
        one("LDG", 1),
        *[one("MOV")] * 2,
        one("FFMA", 2),
        one("BRA", guard="@P1", target=6),
        one("EXIT"),
    )
    found = path(code, {1: 1, 2: 16})
    assert (found.count(1), found.count(3), found.count(6)) == (0, 1, 16)


def test_a_path_without_end_is_refused() -> None:
    with pytest.raises(Exception, match="at most 5 machine instructions"):
        path(NESTED, {1: 4, 2: 12, 3: 1}, 5)


def test_a_call_returns_to_where_it_came_from() -> None:
    """A division's slow path is code after the kernel, called from two places."""
    code = (
        one("LDG", 1),
        one("CALL", target=5),
        one("FFMA", 2),
        one("CALL", target=5),
        one("EXIT"),
        one("FADD", 3),
        one("RET"),
    )
    found = path(code, {1: 1, 2: 1, 3: 2})
    assert sorted(found) == [0, 1, 2, 3, 4, 5, 5, 6, 6]
    assert (found[0], found[-1]) == (0, 4)


def test_a_division_s_instructions_do_not_count_for_its_parts() -> None:
    """Ten multiply-adds come from one division of PTX, which a warp does four times."""
    code = (*[one("DFMA", 1)] * 10, one("BRA", 2, guard="@P0", target=0), one("STG", 3), one("EXIT"))
    found = path(code, {1: 4, 2: 4, 3: 1}, other=frozenset({1}))
    assert found.count(0) == 4


def test_a_call_of_unknown_code_continues_after_it() -> None:
    """A print is a call through a register, whose code is not the kernel's."""
    code = (one("LDG", 1), one("CALL"), one("FFMA", 2), one("BRA", 3, guard="@P0", target=2), one("EXIT"))
    assert path(code, {1: 1, 2: 5}) == [0, 1, *[2, 3] * 5, 4]


def test_jump_tables_are_refused() -> None:
    with pytest.raises(Exception, match="must branch to known targets"):
        flow.graph((one("BRX"), one("EXIT")))
