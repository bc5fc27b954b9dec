"""The array named in a finding for an access out of bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright.observe.checking import arrays
from tilewright.observe.instruments.findings import Finding
from tilewright.programs import Program
from tilewright.simulate.observer import ArgumentFact, Launch

X, OUT = np.arange(64, dtype=np.float32), np.zeros((4, 16), np.float32)
KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.func store(.param .b64 p) {
    .reg .b64 %rd<2>; .reg .b32 %r<2>;
    ld.param.b64 %rd1, [p];
    mov.u32 %r1, 7;
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 offset) {
    .reg .b64 %rd<9>; .reg .b32 %r<4>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u64 %rd3, [offset];
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 40;
    BODY
    ret;
}
"""
OF_Y = "add.s64 %rd4, %rd2, %rd3; st.global.u32 [%rd4+4], %r1;"
OF_EITHER = "selp.b64 %rd4, %rd1, %rd2, %p1; add.s64 %rd5, %rd4, %rd3; st.global.u32 [%rd5], %r1;"
OF_TWO_CALLS = (
    "{ .param .b64 a; st.param.b64 [a], %rd1; call.uni store, (a); }"
    "add.s64 %rd4, %rd2, %rd3; { .param .b64 a; st.param.b64 [a], %rd4; call.uni store, (a); }"
)
OF_ONE_CALL = "add.s64 %rd4, %rd1, %rd3; { .param .b64 a; st.param.b64 [a], %rd4; call.uni store, (a); }"
FAR = 1 << 40
OF_0, OF_1 = "`argument 0` of shape (64,)", "`argument 1` of shape (4, 16)"


@pytest.mark.parametrize(
    ("body", "offset", "array", "words"),
    [
        (OF_Y, FAR - 4, "argument 1", f"; the array is {OF_1}, and its first index would be {FAR // 64:,}"),
        (OF_Y, -FAR, "argument 1", f"; the array is {OF_1}, and its first index would be {-FAR // 64:,}"),
        (OF_Y, 256, "argument 1", f"; the array is {OF_1}"),
        (OF_ONE_CALL, FAR, "argument 0", f"; the array is {OF_0}, and its index would be {FAR // 4:,}"),
        (OF_TWO_CALLS, FAR, None, f"; no array is near it: the launch has {OF_0}, {OF_1}"),
        (OF_EITHER, FAR, None, f"; no array is near it: the launch has {OF_0}, {OF_1}"),
        (OF_EITHER, 260, "argument 1", f"; the nearest array is {OF_1}, which ends 4 bytes before it"),
    ],
    ids=["far", "before", "near", "called", "two calls", "either", "near either"],
)
def test_the_array_from_which_the_address_is_computed(body: str, offset: int, array: str | None, words: str) -> None:
    program = Program.from_ptx(KERNEL.replace("BODY", body))
    (found,) = tw.check(program, 1, 1, (X, OUT.astype(np.uint32), offset))
    assert (found.code, found.details.get("array")) == ("TW101", array)
    assert found.message.endswith(words)


def test_a_python_kernel_s_array_is_named_however_far_the_access_is() -> None:
    pytest.importorskip("numba.cuda", reason="not run: the gpu extra is not installed")

    def shifted(x, out, by):  # type: ignore[no-untyped-def]
        for row in range(4):
            out[row, 3] = x[row + by]

    for by, said in (
        (1 << 50, f"; the array is `x` of shape (64,), and its index would be {1 << 50:,}"),
        (64, "(64,)"),
    ):
        (found,) = tw.check(shifted, 1, 1, (X, OUT, by))
        assert (found.code, found.details["array"]) == ("TW101", "x")
        assert found.message.endswith(said)


BEFORE = ArgumentFact("x", np.dtype("f4"), (64,), (4,), 10_000)
REVERSED = ArgumentFact("y", np.dtype("f8"), (2, 8), (64, -8), 1_000_056)
EMPTY = ArgumentFact("z", np.dtype("f4"), (0,), (4,), 500_000)
ALL = "the launch has `x` of shape (64,), `y` of shape (2, 8), `z` of shape (0,)"
CAME = {"how": "fault", "error": "m", "address": 0}
FOUND = Finding(code="TW101", kernel="k", details=CAME)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (9_996, "the nearest array is `x` of shape (64,), which begins 4 bytes after it"),
        (10_256, "the nearest array is `x` of shape (64,), which ends right before it"),
        (10_255 + 4096, "the nearest array is `x` of shape (64,), which ends 4,095 bytes before it"),
        (10_256 + 4096, f"no array is near it: {ALL}"),
        (10_252, "the array is `x` of shape (64,)"),
        (1_000_000, "the array is `y` of shape (2, 8)"),
        (999_992, "the nearest array is `y` of shape (2, 8), which begins 8 bytes after it"),
        (1_000_127, "the array is `y` of shape (2, 8)"),
        (1_000_128, "the nearest array is `y` of shape (2, 8), which ends right before it"),
        (500_000, "the nearest array is `z` of shape (0,), which ends right before it"),
    ],
)
def test_without_a_text_the_nearest_array_is_named_as_such(address: int, words: str) -> None:
    program = Program.from_ptx(KERNEL.replace("BODY", OF_Y))
    launch = Launch("k", program, (1, 1, 1), (1, 1, 1), 0, (BEFORE, REVERSED, EMPTY))
    found = arrays.named(replace(FOUND, details=CAME | {"address": address}), launch, None)
    assert found.message == f"m; {words}"
    assert found.details.get("array") == (None if "no array" in words else words.split("`")[1])


def test_other_accesses_and_launches_without_arrays_are_left_unchanged() -> None:
    program = Program.from_ptx(KERNEL.replace("BODY", OF_Y))
    launch = Launch("k", program, (1, 1, 1), (1, 1, 1), 0, (BEFORE,))
    for finding in (replace(FOUND, code="TW302"), replace(FOUND, details={})):
        assert arrays.named(finding, launch, None) is finding
    assert arrays.named(FOUND, replace(launch, arguments=(ArgumentFact("n"),)), None) is FOUND
    many = tuple(ArgumentFact(f"a{i}", np.dtype("f4"), (1,), (4,), 10**6 * (i + 1)) for i in range(8))
    far = replace(FOUND, details=CAME | {"address": FAR})
    assert arrays.named(far, replace(launch, arguments=many), None).message.endswith("`a5` of shape (1,) and 2 more")
    assert arrays.named(FOUND, replace(launch, arguments=many), None).message == "m; the pointer is null"
