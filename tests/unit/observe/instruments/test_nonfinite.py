"""Stores of NaN and infinity, by type, width and lane."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright.observe.instruments.nonfinite import FloatArray, Nonfinite, NonfiniteRow
from tilewright.simt import Memory

INF, NAN, MOST = 0x7F80_0000, 0x7FC0_0001, 0x7F7F_FFFF


def rows(body: str, block: int = 40, grid: int = 1, seed: int | None = None) -> tuple[NonfiniteRow, ...]:
    out = np.zeros(8 * block * grid, np.uint32)
    program = kernel(body, declarations=".shared .align 8 .b8 s[64];")
    return run(program, out, block=block, grid=grid, instruments=[Nonfinite()], seed=seed).results["nonfinite"].rows


@pytest.mark.parametrize(
    ("body", "type_", "count"),
    [
        (f"mov.b32 %f1, {INF}; st.global.f32 [%at], %f1;", "f32", 40),
        (f"mov.b32 %f1, {INF | 1 << 31}; st.global.f32 [%at], %f1;", "f32", 40),
        (f"mov.b32 %f1, {NAN}; st.global.b32 [%at], %f1;", "f32", 40),
        (f"mov.b32 %f1, {MOST}; st.global.f32 [%at], %f1;", "f32", 0),
        (f"mov.b32 %f1, {NAN}; setp.gt.u32 %p1, %tid, 36; @%p1 st.global.f32 [%at], %f1;", "f32", 3),
        (f"mov.b32 %r1, {NAN}; st.global.u32 [%at], %r1;", "", 0),
        (f"mov.b32 %f1, {NAN}; st.shared.f32 [s], %f1;", "", 0),
        (f"mov.b64 %e1, {0x7FF << 52}; st.global.f64 [%out], %e1;", "f64", 40),
        (f"mov.b64 %e1, {0x7FE << 52}; st.global.b64 [%out], %e1;", "f64", 0),
        ("mov.b16 %h1, 31744; st.global.b16 [%at], %h1;", "f16", 40),
        ("mov.b16 %h1, 31743; st.global.b16 [%at], %h1;", "f16", 0),
        # any element of a vector
        (f"mov.b32 %f1, {MOST}; mov.b32 %f2, {INF}; st.global.v2.f32 [%out], {{%f1, %f2}};", "f32", 40),
        (f"mov.b32 %f1, {MOST}; mov.b32 %f2, 0; st.global.v2.f32 [%out], {{%f1, %f2}};", "f32", 0),
        # arbitrary addresses
        (f"mov.b32 %f1, {INF}; xor.b32 %r1, %tid, 5; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %out;"
         "st.global.f32 [%d1], %f1;", "f32", 40),
    ],
)  # fmt: skip
def test_values_are_judged_by_their_bits(body: str, type_: str, count: int) -> None:
    kind = "NaN" if str(NAN) in body else "infinity"
    assert [(row.type, row.kind, row.count) for row in rows(body)] == [(type_, kind, count)] * (count > 0)


def test_both_kinds_by_one_store() -> None:
    body = f"mov.b32 %f1, {NAN}; setp.lt.u32 %p1, %tid, 3; @%p1 mov.b32 %f1, {INF}; st.global.f32 [%at], %f1;"
    assert [(row.kind, row.count, row.thread) for row in rows(body)] == [
        ("infinity", 3, (0, 0, 0)),
        ("NaN", 37, (3, 0, 0)),
    ]


def test_arrays_are_examined_before_and_after() -> None:
    memory = Memory()
    x = memory.array(np.array([[1, np.inf], [np.nan, 2]], np.float32))
    arrays = [FloatArray(x.address, x.dtype, (2, 2), (4, 8)), FloatArray(x.address, x.dtype, (0, 3), (4, 4))]
    body = f"mov.b32 %f1, {NAN}; setp.lt.u32 %p1, %tid, 2; @%p1 st.global.f32 [%at], %f1;"
    result = run(kernel(body), x, instruments=[Nonfinite(arrays)]).results["nonfinite"]
    assert result.before[0].tolist() == [[0, 2], [1, 0]]
    assert result.after[0].tolist() == [[2, 2], [2, 0]]
    assert result.before[1].shape == (0, 3)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_the_first_place_does_not_depend_on_the_order(seed: int | None) -> None:
    body = f"mov.b32 %f1, {NAN}; setp.gt.u32 %p1, %gid, 210; @%p1 st.global.f32 [%at], %f1;"
    (row,) = rows(body, block=100, grid=5, seed=seed)
    assert (row.block, row.thread, row.count) == ((2, 0, 0), (11, 0, 0), 289)
