"""TW603: values that are not finite, made from finite ones by the kernel, or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.checking import check
from tilewright.programs import Program

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out, .param .f32 a) {
.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>; .reg .f32 %f<9>;
.shared .align 4 .b8 s[128];
ld.param.u64 %d1, [x]; ld.param.u64 %d2, [out]; ld.param.f32 %f1, [a]; mov.u32 %r1, %tid.x;
mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3; ld.global.f32 %f2, [%d4];
"""
STORE = "st.global.f32 [%d5], %f3; ret; }"
QUOTIENT = "div.rn.f32 %f3, %f1, %f2;\n" + STORE
INF, ZERO = "0f7F800000", "0f00000000"


def found(body: str, x: Any = 0.0, a: float = 1.0, out: Any = None) -> list[tuple[int, str, int]]:
    """(line of the body, kind, lanes) of each finding."""
    given = np.full(32, x, np.float32)
    result = np.zeros(32, np.float32) if out is None else out
    rows = check(Program.from_ptx(HEAD + body), 1, 32, (given, result, np.float32(a)))
    assert all(row.code == "TW603" and row.thread is not None for row in rows)
    return [(row.ptx_line - HEAD.count("\n"), row.details["kind"], row.count) for row in rows]


@pytest.mark.parametrize(
    ("body", "x", "a", "expected"),
    [
        (QUOTIENT, 0.0, 1.0, [(2, "infinity", 32)]),
        (QUOTIENT, 0.0, 0.0, [(2, "NaN", 32)]),
        (QUOTIENT, 2.0, 1.0, []),
        (QUOTIENT, [0.0] * 3 + [1.0] * 29, 1.0, [(2, "infinity", 3)]),
        # the loaded value is already not finite
        (QUOTIENT, np.inf, np.inf, []),
        (QUOTIENT, [np.nan] + [0.0] * 31, 1.0, []),
        # copied from an argument, or from the array
        ("st.global.f32 [%d5], %f1; ret; }", 0.0, np.inf, []),
        # the initial constant of a minimum, stored if nothing is smaller
        (f"mov.f32 %f3, {INF};\nsetp.gt.f32 %p1, %f2, %f1;\n@%p1 min.f32 %f3, %f3, %f2;\n" + STORE, 0.0, 1.0, []),
        # such a constant inside a function's steps is not the kernel's
        (f"fma.rn.f32 %f4, %f2, {INF}, {INF};\ndiv.rn.f32 %f3, %f1, %f2;\n" + STORE, 0.0, 1.0, [(3, "infinity", 32)]),
        # stored, and then overwritten
        (f"div.rn.f32 %f4, %f1, %f2;\nst.global.f32 [%d5], %f4;\nmov.f32 %f3, {ZERO};\n" + STORE, 0.0, 1.0, []),
        # integers' bits
        ("mov.u32 %r2, -1;\nst.global.b32 [%d5], %r2;\nret; }", 0.0, 1.0, []),
    ],
)  # fmt: skip
def test_only_values_that_the_kernel_made_are_found(body: str, x: Any, a: float, expected: Any) -> None:
    assert found(body, x, a) == expected


def test_an_input_that_is_not_read_may_hold_anything() -> None:
    out = np.full(32, np.nan, np.float32)
    assert found(QUOTIENT, out=out) == [(2, "infinity", 32)]
    assert np.isinf(out).all()


def test_consequences_of_another_finding_are_not_reported() -> None:
    body = "ld.shared.f32 %f3, [s];\nadd.f32 %f3, %f3, %f2;\nst.global.f32 [%d5], %f3; ret; }"
    rows = check(Program.from_ptx(HEAD + body), 1, 32, (np.ones(32, np.float32), np.zeros(32, np.float32), 1.0))
    assert [row.code for row in rows] == ["TW202"]
