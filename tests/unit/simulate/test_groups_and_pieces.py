"""Values that look uniform but are not: votes of several groups, and parts of a wider register."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run

#: Lanes 0 to 15 name each other, and lanes 16 to 31: two tiles of a cooperative group run one instruction.
_TILES = "setp.lt.u32 %p2, %lane, 16; selp.b32 %r1, 0xFFFF, 0xFFFF0000, %p2;"
LOW, HIGH = range(16), range(16, 32)


@pytest.mark.parametrize(
    ("body", "low", "high"),
    [
        ("setp.eq.u32 %p1, %lane, 3; vote.sync.any.pred %p3, %p1, %r1; selp.u32 %r9, 1, 0, %p3;", 1, 0),
        ("setp.ge.u32 %p1, %lane, 3; vote.sync.all.pred %p3, %p1, %r1; selp.u32 %r9, 1, 0, %p3;", 0, 1),
        ("setp.ge.u32 %p1, %lane, 3; vote.sync.ballot.b32 %r9, %p1, %r1;", 0xFFF8, 0xFFFF0000),
        ("redux.sync.add.u32 %r9, %lane, %r1;", sum(LOW), sum(HIGH)),
        ("redux.sync.max.s32 %r9, %lane, %r1;", 15, 31),
    ],
)
def test_each_group_has_its_own_vote(body: str, low: int, high: int) -> None:
    out = np.zeros(32, np.uint32)
    run(kernel(_TILES + body + "st.global.u32 [%at], %r9;"), out)
    assert out.tolist() == [low] * 16 + [high] * 16


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("mov.u64 %d1, 5;", lambda t: 5, lambda t: 0),
        ("mul.wide.u32 %d1, %tid, 4;", lambda t: 4 * t, lambda t: 0),
        ("cvt.u64.u32 %d1, %tid; shl.b64 %d1, %d1, 33;", lambda t: 0, lambda t: 2 * t),
        ("mov.u64 %d1, -1;", lambda t: 0xFFFFFFFF, lambda t: 0xFFFFFFFF),
    ],
)
def test_the_parts_of_a_register(value: str, low: object, high: object) -> None:
    assert callable(low) and callable(high)
    body = f"""{value} mov.b64 {{%r1, %r2}}, %d1; add.u32 %r1, %r1, 1; add.u32 %r2, %r2, 1;
    st.global.u32 [%at], %r1; st.global.u32 [%at+128], %r2;"""
    out = np.zeros(64, np.uint32)
    run(kernel(body), out)
    assert out[:32].tolist() == [(low(t) + 1) & 0xFFFFFFFF for t in range(32)]
    assert out[32:].tolist() == [(high(t) + 1) & 0xFFFFFFFF for t in range(32)]
