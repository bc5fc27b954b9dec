"""Loads whose value some threads do not use."""

from __future__ import annotations

import pytest

from tilewright.observe.checking.static.idle import threads
from tilewright.observe.checking.static.values import of_kernel

_KERNEL = """.version 8.0 .target sm_90 .address_size 64
.visible .entry k(.param .u64 x, .param .u32 n) {{ .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<9>;
ld.param.u64 %rd1, [x]; ld.param.u32 %r8, [n]; mov.u32 %r2, %tid.x; .shared .u32 s;
ld{weak}.global.u32 %r1, [%rd1];
{body} ret; }}"""


#: The first thread.
_FIRST = "setp.eq.u32 %p1, %r2, 0;"


def _idle(body: str, block: tuple[int, int, int] = (64, 1, 1), weak: str = "") -> int:
    """How many threads do not use the load."""
    found = threads(of_kernel(_KERNEL.format(body=body, weak=weak), "k"), block)
    return int(found[4].sum()) if 4 in found else 0


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("and.b32 %r3, %r2, 16; setp.eq.b32 %p1, %r3, 0; @%p1 st.global.u32 [%rd1], %r1;", 32),
        ("setp.ge.u32 %p1, %r2, 5; @!%p1 st.global.u32 [%rd1], %r1;", 59),
        ("setp.ge.u32 %p1, %r2, 5; @%p1 bra E; add.u32 %r4, %r1, 1; st.global.u32 [%rd1], %r4; E:", 59),
        ("shr.u32 %r3, %r2, 5; setp.ne.u32 %p1, %r3, 0; @%p1 red.global.add.u32 [%rd1], %r1;", 32),
        # with a condition that depends on more than the thread's index
        (
            "setp.lt.u32 %p1, %r2, 4; setp.lt.u32 %p2, %r2, %r8; and.pred %p3, %p1, %p2;"
            "@%p3 st.global.u32 [%rd1], %r1;",
            60,
        ),
        ("setp.lt.u32 %p2, %r2, %r8; @%p2 st.global.u32 [%rd1], %r1;", 0),
        (
            "setp.lt.u32 %p1, %r2, 4; setp.lt.u32 %p2, %r2, %r8; or.pred %p3, %p1, %p2;@%p3 st.global.u32 [%rd1], %r1;",
            0,
        ),
        # lanes exchange it: with one lane, with four, with any of the warp, and by blocks of other sizes
        (f"shfl.sync.bfly.b32 %r3, %r1, 2, 31, -1; {_FIRST} @%p1 st.global.u32 [%rd1], %r3;", 63),
        (
            "shfl.sync.bfly.b32 %r3, %r1, 2, 31, -1; add.u32 %r4, %r1, %r3; shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1;"
            f"add.u32 %r6, %r4, %r5; {_FIRST} @%p1 st.global.u32 [%rd1], %r6;",
            60,
        ),
        (f"shfl.sync.down.b32 %r3, %r1, 2, 31, -1; {_FIRST} @%p1 st.global.u32 [%rd1], %r3;", 63),
        (f"shfl.sync.bfly.b32 %r3, %r1, 2, 7199, -1; {_FIRST} @%p1 st.global.u32 [%rd1], %r3;", 63),
        ("shfl.sync.down.b32 %r3, %r1, 2, 7199, -1; setp.lt.u32 %p1, %r2, 4; @%p1 st.global.u32 [%rd1], %r3;", 62),
        ("shfl.sync.idx.b32 %r3, %r1, 5, 31, -1; st.global.u32 [%rd1], %r3;", 62),
        ("shfl.sync.idx.b32 %r3, %r1, 5, 6175, -1; st.global.u32 [%rd1], %r3;", 56),
        ("shfl.sync.up.b32 %r3, %r1, 1, 0, -1; setp.lt.u32 %p1, %r2, 16; @%p1 st.global.u32 [%rd1], %r3;", 49),
        (
            "shfl.sync.up.b32 %r3, %r1, 1, 0, -1; add.u32 %r4, %r1, %r3; shfl.sync.up.b32 %r5, %r4, 2, 0, -1;"
            "add.u32 %r6, %r4, %r5; setp.lt.u32 %p1, %r2, 4; @%p1 st.global.u32 [%rd1], %r6;",
            60,
        ),
        (f"shfl.sync.bfly.b32 %r3, %r1, %r8, 31, -1; {_FIRST} @%p1 st.global.u32 [%rd1], %r3;", 32),
        (
            f"shfl.sync.bfly.b32 %r3, %r1, 2, 31, -1; {_FIRST} @%p1 st.global.u32 [%rd1], %r1;"
            "st.global.u32 [%rd1], %r3;",
            0,
        ),
        # it decides a branch or a guard of the first thread's store
        (
            f"setp.ge.u32 %p2, %r1, %r8; @%p2 bra E; add.u32 %r4, %r1, 1; {_FIRST} @%p1 st.global.u32 [%rd1], %r4; E:",
            63,
        ),
        (
            "setp.ge.u32 %p2, %r1, %r8; @%p2 bra E; ld.global.u32 %r4, [%rd1+8];"
            f"{_FIRST} @%p1 st.global.u32 [%rd1], %r4; E:",
            63,
        ),
        (f"{_FIRST} setp.lt.u32 %p2, %r1, %r8; and.pred %p3, %p1, %p2; @%p3 st.global.u32 [%rd1], %r1;", 63),
        (f"setp.lt.u32 %p2, %r1, %r8; @%p2 add.u32 %r4, %r1, 1; {_FIRST} @%p1 st.global.u32 [%rd1], %r4;", 63),
        # a second use by all
        ("setp.eq.u32 %p1, %r2, 0; @%p1 st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %r1;", 0),
    ],
)
def test_stores_are_left_out_by_threads_whose_guard_or_branch_is_false(body: str, expected: int) -> None:
    assert _idle(body) == expected


@pytest.mark.parametrize(
    "use",
    [
        "setp.eq.u32 %p2, %r1, 0; @%p2 bra E; st.global.u32 [%rd1+4], %r2; E:",  # it decides a branch
        "setp.eq.u32 %p2, %r1, 0; @%p2 st.global.u32 [%rd1+4], %r2;",  # a guard
        "setp.eq.u32 %p2, %r1, 0; mov.u32 %r3, 1; @%p2 bra E; mov.u32 %r3, 2; E: st.global.u32 [%rd1+4], %r3;",
        "setp.eq.u32 %p2, %r1, 0; @%p2 bra E; bar.sync 0; E:",
        "L: setp.eq.u32 %p2, %r1, 0; @%p2 bra L;",  # how often a loop runs
        "cvt.u64.u32 %rd2, %r1; ld.global.u32 %r3, [%rd2];",  # an address
        "st.shared.u32 [s], %r1; ld.shared.u32 %r3, [s];",  # any thread of the block gets it
    ],
)
def test_a_value_that_decides_or_leaves_the_thread_is_used_by_all(use: str) -> None:
    assert _idle(f"setp.eq.u32 %p1, %r2, 0; @%p1 st.global.u32 [%rd1], %r1; {use}") == 0


def test_indices_on_all_axes_count_and_loads_for_other_threads_do_not() -> None:
    body = "mov.u32 %r3, %tid.y; setp.eq.u32 %p1, %r3, 1; @%p1 st.global.u32 [%rd1], %r1;"
    assert _idle(body, (4, 3, 2)) == 16
    assert _idle(body, (4, 3, 2), ".volatile") == 0
