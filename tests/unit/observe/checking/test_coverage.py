"""TW501, TW503 and TW506: reasons why a launch left out a part of an array, and parts without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.observe.checking.coverage import Coverage
from tilewright.observe.checking.static.values import Values, of_kernel
from tilewright.observe.instruments.touched import TouchedResult
from tilewright.programs import Program
from tilewright.simulate.events import GLOBAL_BASE
from tilewright.simulate.observer import ArgumentFact, Launch

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<9>; .reg .pred %p<3>;\n"
HEAD += "mov.u32 %r5, %ctaid.x; mov.u32 %r6, %tid.x; st.global.u32 [0], %r5;\n"
PLAIN = HEAD + "ret; }"
READS_Y = HEAD + "mov.u32 %r1, %ctaid.y; mov.u32 %r2, %tid.y; st.shared.u32 [%r1], %r1; ret; }"
LOOPS = READS_Y.removesuffix("ret; }") + "mov.u32 %r3, %nctaid.x; mov.u32 %r4, 0;\n"
LOOPS += "L: add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, %r3;\n@%p1 bra L; ret; }"
SIZE = 4096


def launched(
    arrays: dict[str, tuple[int, ...]], grid: tuple[int, ...], block: tuple[int, ...], text: str = PLAIN
) -> tuple[Launch, Values]:
    """A launch with arrays of bytes, each in its own 4,096."""
    facts = [
        ArgumentFact(name, np.dtype(np.uint8), shape, np.empty(shape, np.uint8).strides, GLOBAL_BASE + SIZE * i)
        for i, (name, shape) in enumerate(arrays.items())
    ]
    extents: Any = [(*e, 1, 1)[:3] for e in (grid, block)]
    launch = Launch("k", Program.from_ptx(text), *extents, 0, (*facts, ArgumentFact("n")), "script.py:9")
    return launch, of_kernel(text, "k")


def touched(launch: Launch, parts: dict[str, tuple[str, Any]]) -> TouchedResult:
    """Maps in which this much of each named array was read (`r`), written (`w`) or both."""
    maps = {access: np.zeros(SIZE * len(launch.arguments), np.uint8) for access in "rw"}
    for fact in launch.arguments:
        accesses, index = parts.get(fact.name, ("", ()))
        for access in accesses:
            start = fact.address - GLOBAL_BASE
            maps[access][start : start + int(np.prod(fact.shape))].reshape(fact.shape)[index] = 1
    return TouchedResult(maps["r"], maps["w"])


def found(
    arrays: dict[str, tuple[int, ...]], parts: dict[str, tuple[str, Any]], grid: Any, block: Any, text: str = PLAIN
) -> list[tuple[str, str]]:
    coverage = Coverage()
    launch, values = launched(arrays, grid, block, text)
    coverage.add(launch, touched(launch, parts), values)
    assert all((f.source, f.line) == ("script.py", 9) for f in coverage.findings())
    return [(f.code, f.details["array"]) for f in coverage.findings()]


S = np.s_


@pytest.mark.parametrize(
    ("shape", "part", "grid", "block", "code"),
    [
        ((100,), S[:96], (3,), (32,), "TW501"),
        ((100,), S[:100], (4,), (32,), ""),
        # four elements a thread
        ((100,), S[:96], (3,), (8,), "TW501"),
        # more than a block's share is left: a partial write on purpose
        ((200,), S[:96], (3,), (32,), ""),
        # not the grid's reach, not from the beginning, not a box
        ((100,), S[:95], (3,), (32,), ""),
        ((100,), S[4:100], (3,), (32,), ""),
        ((100,), S[:96:2], (3,), (32,), ""),
        ((100,), S[:3], (3,), (32,), ""),
        # two dimensions, x along the rows and along the columns; one axis or both
        ((20, 37), S[:16, :32], (4, 2), (8, 8), "TW501"),
        ((37, 20), S[:32, :16], (4, 2), (8, 8), "TW501"),
        ((20, 32), S[:16, :], (4, 2), (8, 8), "TW501"),
        ((20, 37), S[:16, :30], (4, 2), (8, 8), ""),
        ((20, 37), S[:7, :32], (4, 2), (8, 8), ""),
        # one thread a block: nothing was divided
        ((9,), S[:3], (3,), (1,), ""),
    ],
)  # fmt: skip
def test_a_grid_from_floor_division_leaves_less_than_a_block(
    shape: Any, part: Any, grid: Any, block: Any, code: str
) -> None:
    text = READS_Y if len(grid) > 1 else PLAIN
    assert found({"a": shape}, {"a": ("w", part)}, grid, block, text) == ([(code, "a")] if code else [])
    reads = [("TW506", "a")] if code else []
    assert found({"a": shape, "b": (1,)}, {"a": ("r", part), "b": ("w", S[:])}, grid, block, text) == reads


def test_a_grid_made_for_another_array_is_no_floor_division() -> None:
    arrays = {"starts": (97,), "out": (96,)}
    assert found(arrays, {"starts": ("r", S[:96]), "out": ("w", S[:])}, (3,), (32,)) == []


def test_an_array_that_is_read_where_it_is_not_written_is_no_output() -> None:
    assert found({"a": (100,)}, {"a": ("w", S[:96])}, (3,), (32,)) == [("TW501", "a")]
    coverage = Coverage()
    launch, values = launched({"a": (100,)}, (3,), (32,))
    maps = touched(launch, {"a": ("w", S[:96])})
    maps.read[98] = 1
    coverage.add(launch, maps, values)
    assert coverage.findings() == []


def test_an_input_follows_from_its_output() -> None:
    arrays = {"x": (100,), "out": (100,)}
    parts = {"x": ("r", S[:96]), "out": ("w", S[:96])}
    assert found(arrays, parts, (3,), (32,)) == [("TW501", "out")]


@pytest.mark.parametrize(
    ("text", "reached", "code"),
    [(LOOPS, 32, "TW506"), (READS_Y, 32, ""), (LOOPS, 33, ""), (LOOPS, 64, "")],
)
def test_a_loop_as_long_as_the_grid(text: str, reached: int, code: str) -> None:
    arrays = {"a": (32, 64), "b": (64, 32), "c": (32, 32)}
    parts = {"a": ("r", S[:, :reached]), "b": ("r", S[:reached]), "c": ("w", S[:])}
    wanted = [(code, "a"), (code, "b")] if code else []
    assert found(arrays, parts, (2, 2), (16, 16), text) == wanted


@pytest.mark.parametrize(
    ("text", "grid", "part", "code"),
    [
        (READS_Y, (2,), S[:1, :], "TW503"),
        (READS_Y, (2,), S[:1, :32], ""),
        (PLAIN, (2,), S[:1, :], ""),
        (READS_Y, (2, 2), S[:1, :], ""),
        (READS_Y, (2,), S[:2, :], ""),
    ],
)
def test_one_row_by_one_dimension(text: str, grid: Any, part: Any, code: str) -> None:
    assert found({"a": (9, 50)}, {"a": ("w", part)}, grid, (32,), text) == ([(code, "a")] if code else [])


@pytest.mark.parametrize("order", [("main", "rest"), ("rest", "main")])
def test_another_launch_may_do_the_rest(order: tuple[str, str]) -> None:
    coverage = Coverage()
    parts = {"main": ("w", S[:96]), "rest": ("w", S[96:])}
    launch, values = launched({"a": (100,)}, (3,), (32,))
    for name in order:
        coverage.add(launch, touched(launch, {"a": parts[name]}), values)
    assert coverage.findings() == []


def test_memory_that_is_freed_and_used_again_is_another_array() -> None:
    coverage = Coverage()
    launch, values = launched({"a": (100,)}, (3,), (32,))
    coverage.add(launch, touched(launch, {"a": ("w", S[:96])}), values)
    coverage.freed(GLOBAL_BASE, 100)
    coverage.add(launch, touched(launch, {"a": ("w", S[96:])}), values)
    assert [f.code for f in coverage.findings()] == ["TW501"]
    coverage.freed(GLOBAL_BASE, 100)
    assert [f.code for f in coverage.findings()] == ["TW501"]


def test_the_message_states_the_grid_s_reach() -> None:
    coverage = Coverage()
    launch, values = launched({"a": (20, 37)}, (4, 2), (8, 8), READS_Y)
    coverage.add(launch, touched(launch, {"a": ("w", S[:16, :32])}), values)
    (finding,) = coverage.findings()
    assert finding.message == (
        "the grid reaches (16, 32) of array `a`; elements from 16 of axis 0 and 32 of axis 1 on were never written "
        "(its shape is (20, 37))"
    )
    assert finding.details["reached"] == [16, 32]
