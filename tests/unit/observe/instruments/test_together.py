"""Accesses judged together, and reads already settled, give the same findings as judging lane by lane."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ptx_kernels import kernel

from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.observe.instruments.shadow.tables import Table
from tilewright.simt import launch
from tilewright.simulate.events import Handler, Site

WARPS, WORDS = 4, 512
#: Byte addresses of lanes by their thread's number: one word a thread, one for all, one a lane, one
#: for 16 threads, every second word.
BASES = {
    "%r4": "mul.lo.u32 %r4, %r3, 4;",
    "%r5": "mov.u32 %r5, 256;",
    "%r6": "mov.u32 %r11, %laneid; mul.lo.u32 %r6, %r11, 4;",
    "%r7": "shr.u32 %r7, %r3, 4; mul.lo.u32 %r7, %r7, 64;",
    "%r8": "mov.u32 %r10, %laneid; mul.lo.u32 %r8, %r10, 8;",
}
#: Registers of the bases are written once, so that the translator knows their patterns.
START = "mov.u32 %r3, %tid.x;"


class LaneByLane(MemoryCheck):
    """Gets no events for patterns or for several accesses together."""

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        return super().handler(site, None)

    def together(self, sites: Sequence[Site], offsets: Sequence[tuple[int, ...]]) -> Handler | None:
        return None


def random_body(choose: random.Random) -> str:
    """Loads and stores with few bases in straight lines and short loops, between barriers that may be missing."""
    lines = [START, *BASES.values()]
    lines += [f"st.shared.u32 [%r4+{4 * 32 * WARPS * i}], %tid;" for i in range(choose.choice([3, 4]))]
    lines.append(choose.choice(["bar.sync 0;", "bar.sync 0;", "bar.sync 0;", "bar.warp.sync 0xffffffff;"]))
    for part in range(choose.randrange(2, 6)):
        rounds = choose.choice([1, 1, 3, 5])
        lines.append(f"mov.u32 %r9, 0; L{part}:")
        for _ in range(choose.randrange(1, 7)):
            base = choose.choice(list(BASES))
            width = choose.choice(["u32 %r1", "v2.u32 {%r1, %r2}"] if base in ("%r5", "%r7", "%r8") else ["u32 %r1"])
            offset = choose.choice([0, 0, 8, 64, 128, 512]) + 8 * choose.randrange(3)
            place = f"[{base}+{offset}]"
            some = f"setp.eq.u32 %p1, %tid, {choose.randrange(32 * WARPS)}; @%p1"
            what = choose.choices(["load", "store", "one", "atomic"], [16, 2, 2, 1])[0]
            lines.append(
                {
                    "load": f"ld.shared.{width}, {place};",
                    "store": f"st.shared.u32 {place}, %tid;",
                    "one": f"{some} st.shared.u32 {place}, %r9;",
                    "atomic": f"red.shared.add.u32 {place}, 1;",
                }[what]
            )
        lines.append(choose.choice(["", "", "bar.sync 0;", "bar.warp.sync 0xffffffff;"]))
        lines.append(f"add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, {rounds}; @%p2 bra L{part};")
        lines.append(
            choose.choice(
                [
                    "bar.sync 0;",
                    "bar.sync 0;",
                    "bar.warp.sync 0xffffffff;",
                    "bar.sync 1, 128;",
                    "",
                    "setp.lt.u32 %p3, %tid, 64; @%p3 bar.sync 2, 64;",
                ]
            )
        )
    return "\n".join(lines)


def found(check: type[MemoryCheck], body: str, seed: int | None) -> set[tuple[Any, ...]]:
    program = kernel(body, declarations=f".shared .align 16 .b8 s[{4 * WORDS}];")
    memory = np.zeros(1, np.uint32)
    run = launch(program, (2, 1, 1), (32 * WARPS, 1, 1), (memory,), instruments=[check(program.module)], seed=seed)
    return {(f.code, f.ptx_line, f.block, f.thread, f.count) for f in run.results["memory"].findings}


@pytest.mark.parametrize("seed", range(20))
def test_accesses_judged_together_agree_with_lane_by_lane(seed: int) -> None:
    body = random_body(random.Random(seed))
    assert found(MemoryCheck, body, seed) == found(LaneByLane, body, seed), body


@pytest.mark.volume
def test_many_accesses_judged_together_agree_with_lane_by_lane() -> None:
    for seed in range(20, 600):
        body = random_body(random.Random(seed))
        assert found(MemoryCheck, body, seed) == found(LaneByLane, body, seed), body


RACE = {"TW301"}
READ = "ld.shared.u32 %r1, [%r6]; ld.shared.u32 %r2, [%r6+64];"


@pytest.mark.parametrize(
    ("between", "codes"),
    [
        ("", set()),
        ("setp.eq.u32 %p1, %tid, 20; @%p1 st.shared.u32 [%r4], 5;", RACE),
        (
            "setp.eq.u32 %p1, %r9, 2; setp.eq.and.u32 %p1, %tid, 116, %p1; @%p1 st.shared.u32 [80], 5; bar.sync 0;",
            RACE,
        ),
        ("bar.sync 0; setp.lt.u32 %p1, %tid, 32; @%p1 st.shared.u32 [%r4], 5; bar.sync 0;", set()),
    ],
)
def test_a_read_that_was_settled_is_judged_again_when_a_cell_has_changed(between: str, codes: set[str]) -> None:
    """All warps read the same words repeatedly; a write between is a race, one between barriers is none."""
    body = f"""{START} {BASES["%r4"]} {BASES["%r6"]} st.shared.u32 [%r4], %tid; st.shared.u32 [%r4+512], %tid;
        bar.sync 0;
        mov.u32 %r9, 0; L: {READ} {between} add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 3; @%p2 bra L;"""
    for seed in (None, 1, 2, 3):
        assert {code for code, *_ in found(MemoryCheck, body, seed)} == codes
        assert found(MemoryCheck, body, seed) == found(LaneByLane, body, seed)


def test_loads_on_both_sides_of_a_store_are_not_judged_together() -> None:
    """The second load reads what the store has just written, and nothing had written it before."""
    body = f"""{START} {BASES["%r4"]} st.shared.u32 [%r4], %tid;
        ld.shared.u32 %r1, [%r4]; st.shared.u32 [%r4+512], %r1; ld.shared.u32 %r2, [%r4+512];"""
    assert found(MemoryCheck, body, None) == set()


def test_a_table_has_the_result_of_one_access_after_the_other() -> None:
    """Sites of cells that accesses share, and the lanes of all that access one."""
    table = Table([[0, 4, 4, 12], [0, 8, 8, 12]], [4, 4], 4)
    assert table.rows == [[0, 1, 2, 3]]
    touched = {cell: (t.low, t.high, t.access, t.several) for cell, t in table.cells.items()}
    # lane 0 twice, the last stays; lanes 1 and 2 at the first access, at the second; lane 3 twice
    assert touched == {0: (0, 0, 1, False), 1: (1, 2, 0, True), 2: (1, 2, 1, True), 3: (3, 3, 1, False)}
    assert Table([[0, 0], [0]], [4, 4], 4).cells[0].access == 4095
    assert [t.tile for t in Table([[0, 0], [0, 0, 4, 4]], [4, 4], 4).cells.values()] == [16, 17]
