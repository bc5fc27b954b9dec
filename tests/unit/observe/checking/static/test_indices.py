"""TW602: 32-bit index arithmetic that wraps is found at its line, and no other arithmetic is."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.observe.checking.static import indices
from tilewright.observe.checking.static.values import of_kernel
from tilewright.observe.instruments.wraparound import Wraparound
from tilewright.programs import Program
from tilewright.simt import launch

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u32 n) {
.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>;
ld.param.u64 %d1, [x]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;
"""
#: The address is unused, because a wrapped index would be out of bounds.
TAIL = "\nadd.s64 %d3, %d1, %d2; setp.eq.u32 %p1, %r2, 99; @%p1 st.global.u32 [%d3], %r2; ret; }"
SIGNED = "\nmul.wide.s32 %d2, %r3, 4;"
UNSIGNED = "\nmul.wide.u32 %d2, %r3, 4;"


def found(body: str, n: int) -> list[tuple[int, int]]:
    """(line of the body, lanes) of each finding."""
    program = Program.from_ptx(HEAD + body + TAIL)
    values = of_kernel(program.ptx, "k")
    signs = indices.lines(values)
    run = launch(program, 1, 40, (np.zeros(4, np.uint32), n), instruments=[Wraparound(signs)])
    rows = indices.findings(values, "k", run.results["wraparound"], signs)
    assert all(row.code == "TW602" and row.block == (0, 0, 0) for row in rows)
    return [(row.ptx_line - HEAD.count("\n"), row.count) for row in rows]


@pytest.mark.parametrize(
    ("body", "n", "expected"),
    [
        # signed: 2^31 does not fit; unsigned: it does
        ("mad.lo.s32 %r3, %r1, 2, 0;" + SIGNED, 1 << 30, [(1, 40)]),
        ("mad.lo.s32 %r3, %r1, 2, 0;" + SIGNED, (1 << 30) - 1, []),
        ("mad.lo.s32 %r3, %r1, 2, 0;" + UNSIGNED, 1 << 30, []),
        ("mad.lo.s32 %r3, %r1, 4, 0;" + UNSIGNED, 1 << 30, [(1, 40)]),
        # lane by lane: 39 and 38 times 2^26
        ("mul.lo.s32 %r3, %r2, %r1;" + SIGNED, 1 << 26, [(1, 8)]),
        # downwards: 5 - 7 is signed, and no unsigned index; adding 2^32 - 1 subtracts 1
        ("sub.s32 %r3, %r1, 7;" + SIGNED, 5, []),
        ("sub.s32 %r3, %r1, 7;" + UNSIGNED, 5, [(1, 40)]),
        ("add.s32 %r3, %r1, -1;" + UNSIGNED, 5, []),
        ("add.s32 %r3, %r1, -1;" + SIGNED, 5, []),
        ("add.s32 %r3, %r1, -1;" + SIGNED, 1 << 31, []),  # 2^31 unsigned, less 1
        ("add.s32 %r3, %r1, -2;" + SIGNED, (1 << 31) + 1, []),
        # a negative factor
        ("mul.lo.s32 %r3, %r1, -3;" + SIGNED, 1 << 29, []),
        ("mul.lo.s32 %r3, %r1, -5;" + SIGNED, 1 << 29, [(1, 40)]),
        ("shl.b32 %r3, %r1, 3;" + SIGNED, 1 << 28, [(1, 40)]),
        ("shl.b32 %r3, %r1, 3;" + SIGNED, 1 << 27, []),
        ("shl.b32 %r3, %r1, 3;" + UNSIGNED, 1 << 28, []),
        # behind other sums
        ("mul.lo.s32 %r4, %r1, %r1;\nadd.s32 %r3, %r4, %r2;\ncvt.s64.s32 %d4, %r3;\nshl.b64 %d2, %d4, 2;", 1 << 16,
         [(1, 40)]),
        # a hash; a value that is no address
        ("mul.lo.s32 %r4, %r1, %r1;\nand.b32 %r3, %r4, 3;" + SIGNED, 1 << 16, []),
        ("mul.lo.s32 %r4, %r1, %r1;\nrem.u32 %r3, %r4, 3;" + SIGNED, 1 << 16, []),
        ("mul.lo.s32 %r4, %r1, %r1;\nmov.u32 %r3, 1;" + SIGNED, 1 << 16, []),
        # read both ways: not judged
        ("mul.lo.s32 %r3, %r1, %r1;\nmul.wide.u32 %d4, %r3, 4;\nmul.wide.s32 %d5, %r3, 4;\nadd.s64 %d2, %d4, %d5;",
         1 << 16, []),
        # already of 64 bits
        ("mul.wide.s32 %d4, %r1, %r1;\nshl.b64 %d2, %d4, 2;", 1 << 16, []),
    ],
)  # fmt: skip
def test_wrapping_is_found_and_nothing_else(body: str, n: int, expected: list[tuple[int, int]]) -> None:
    assert found(body, n) == expected


def test_an_index_of_an_asynchronous_copy_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = TAIL.replace("st.global.u32 [%d3], %r2;", "cp.async.ca.shared.global [%r4], [%d3], 4;")
    monkeypatch.setattr(f"{__name__}.TAIL", copies)
    assert found("mad.lo.s32 %r3, %r1, 2, 0;" + SIGNED, 1 << 30) == [(1, 40)]


def test_the_first_thread_is_reported() -> None:
    program = Program.from_ptx(HEAD + "mul.lo.s32 %r3, %r2, %r1;" + SIGNED + TAIL)
    signs = indices.lines(of_kernel(program.ptx, "k"))
    for seed in (None, 1, 2):
        run = launch(program, 3, (4, 20), (np.zeros(4, np.uint32), 1 << 30), instruments=[Wraparound(signs)], seed=seed)
        (row,) = run.results["wraparound"]
        assert (row.block, row.thread, row.count) == ((0, 0, 0), (2, 0, 0), 3 * 20 * 2)
