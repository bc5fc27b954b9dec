"""Races with the global memory that asynchronous copies read, between their issue and the wait for them.

PTX ISA, 9.7.9.25.3.3: writes to the source of `cp.async` before it is complete race with it.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.programs import Program

COPY = "cp.async.ca.shared.global [%s], [%g], 16;"
WRITE = "st.global.b32 [%g+4], 7;"
WAIT = "cp.async.wait_all;"
HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
.shared .align 16 .b8 tile[32768];
.reg .b32 %t, %s, %u; .reg .b64 %base, %g, %h, %w; .reg .pred %first, %second;
ld.param.u64 %base, [p]; mov.u32 %t, %tid.x; shl.b32 %u, %t, 4; mov.u32 %s, tile; add.u32 %s, %s, %u;
cvt.u64.u32 %w, %u; add.u64 %g, %base, %w; xor.b64 %w, %w, 512; add.u64 %h, %base, %w;
setp.lt.u32 %first, %t, 32; setp.ge.u32 %second, %t, 32;
"""


def found(*body: str, seed: int | None = None) -> list[tuple[str, int]]:
    """Codes, with the number of the line of the body."""
    program = Program.from_ptx("\n".join([HEAD, *body, "ret;", "}"]))
    findings = tw.check(program, 1, 64, (np.ones(1024, np.float32),), seed=seed)
    return [(one.code, one.ptx_line - len(HEAD.splitlines()) - 2) for one in findings]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ((COPY, WRITE, WAIT), [("TW306", 1)]),
        ((COPY, WAIT, WRITE), []),
        ((WRITE, COPY, WAIT), []),
        ((COPY, "cp.async.commit_group;", "cp.async.wait_group 1;", WRITE, WAIT), [("TW306", 3)]),
        ((COPY, "cp.async.commit_group;", "cp.async.wait_group 0;", WRITE), []),
        ((COPY.replace("16;", "16, 0;"), WRITE, WAIT), []),
        ((COPY, WRITE.replace("+4", "+1024"), WAIT), []),
    ],
)
def test_a_thread_may_not_change_its_copy_s_source_before_the_wait(
    body: tuple[str, ...], wanted: list[tuple[str, int]]
) -> None:
    assert found(*body) == wanted


@pytest.mark.parametrize("seed", [None, *range(6)])
@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_another_warp_may_not_change_it_either(barrier: str, seed: int | None) -> None:
    """The second warp writes the source of the first one's copy: after a barrier, and unordered."""
    body = (f"@%first {COPY}", barrier, "@%second st.global.b32 [%h], 7;", WAIT)
    assert found(*body, seed=seed) == [("TW306", 2)]
    behind = (f"@%first {COPY}", WAIT, "bar.sync 0;", "@%second st.global.b32 [%h], 7;")
    assert found(*behind, seed=seed) == []


def test_of_very_many_copies_the_youngest_are_followed() -> None:
    """A hundred copies of four bytes from one place to different places."""
    place = "mov.u32 %u, tile; mad.lo.u32 %s, %t, 400, %u;"
    copies = [f"cp.async.ca.shared.global [%s+{4 * i}], [%g+4], 4;" for i in range(100)]
    assert found(place, *copies, WAIT, WRITE) == []
    assert found(place, *copies, WRITE, WAIT) == [("TW306", 101)]
    assert found(place, *copies[:10], WAIT, WRITE, *copies[10:], WAIT) == []
