"""TW204: registers that are read, but that no path sets before."""

from __future__ import annotations

import pytest

from tilewright.observe.checking.static import unset
from tilewright.observe.checking.static.values import of_kernel

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n) {
.reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<3>; .reg .f32 %f<9>;
ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n];
"""
STORE = "st.global.u32 [%rd1], %r2; ret; }"


def found(body: str) -> list[tuple[int, list[str]]]:
    """(line of the body, registers) of each finding."""
    rows = unset.findings(of_kernel(HEAD + body, "k"), "k")
    assert all(row.code == "TW204" and row.kernel == "k" for row in rows)
    return [(row.ptx_line - HEAD.count("\n"), row.details["registers"]) for row in rows]


@pytest.mark.parametrize(("scale", "wanted"), [("0", []), ("%p1", []), ("1", [(2, ["%f1", "%f2", "%f3", "%f4"])])])
def test_a_sum_that_begins_with_a_product_reads_nothing(scale: str, wanted: list[tuple[int, list[str]]]) -> None:
    body = f"""mov.u64 %rd2, 0; setp.eq.u32 %p1, %r1, 0;
wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {{%f1,%f2,%f3,%f4}}, %rd2, %rd2, {scale}, 1, 1;
st.global.f32 [%rd1], %f1; ret; }}"""
    assert found(body) == wanted


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("add.s32 %r2, %r3, 1;\n" + STORE, [(1, ["%r3"])]),
        ("mov.u32 %r3, 7;\nadd.s32 %r2, %r3, 1;\n" + STORE, []),
        # copied, then stored: the store is the use
        ("mov.u32 %r2, %r3;\n" + STORE, [(2, ["%r2"])]),
        # an address, a predicate
        ("mov.u32 %r2, 1;\nst.global.u32 [%rd2], %r2; ret; }", [(2, ["%rd2"])]),
        ("mov.u32 %r2, 1;\n@%p1 bra L;\nL:\n" + STORE, [(2, ["%p1"])]),
        ("mov.u32 %r2, 1;\n@%p1 add.s32 %r2, %r2, 1;\n" + STORE, [(2, ["%p1"])]),
        # set in a branch only: some path sets it
        ("setp.eq.u32 %p1, %r1, 0;\n@%p1 bra L;\nmov.u32 %r2, 1;\nL:\n" + STORE, []),
        ("setp.eq.u32 %p1, %r1, 0;\n@%p1 mov.u32 %r2, 1;\n" + STORE, []),
        # a sum without an initial value; the store after it is not reported again
        ("L:\nadd.s32 %r2, %r2, %r1;\nsetp.lt.u32 %p1, %r2, 9;\n@%p1 bra L;\n" + STORE, [(2, ["%r2"])]),
        ("mov.u32 %r2, 0;\nL:\nadd.s32 %r2, %r2, %r1;\nsetp.lt.u32 %p1, %r2, 9;\n@%p1 bra L;\n" + STORE, []),
        # one of two chosen, or half of a pair
        ("setp.eq.u32 %p1, %r1, 0;\nselp.b32 %r2, %r1, %r3, %p1;\n" + STORE, []),
        ("mov.b64 %rd3, {%r1, %r3};\ncvt.u32.u64 %r2, %rd3;\n" + STORE, []),
        ("mov.b64 %rd3, {%r3, %r3};\ncvt.u32.u64 %r2, %rd3;\n" + STORE, [(2, ["%rd3"])]),
        # one number of two that a conversion packs
        ("mov.f32 %f2, 0f00000000;\ncvt.rn.f16x2.f32 %r2, %f1, %f2;\n" + STORE, []),
        ("cvt.rn.f16x2.f32 %r2, %f1, %f2;\n" + STORE, [(2, ["%r2"])]),
        # set later, with no path back
        ("add.s32 %r2, %r3, 1;\nmov.u32 %r3, 7;\n" + STORE, [(1, ["%r3"])]),
        # never reached
        ("mov.u32 %r2, 1;\nbra L;\nadd.s32 %r2, %r3, 1;\nL:\n" + STORE, []),
        # set again after a barrier
        ("mov.u32 %r3, 7;\nbar.sync 0;\nadd.s32 %r2, %r3, 1;\n" + STORE, []),
        ("bar.red.popc.u32 %r2, 0, %p1;\n" + STORE, [(1, ["%p1"])]),
    ],
)  # fmt: skip
def test_a_use_is_found_where_no_path_sets_the_register(body: str, wanted: list[tuple[int, list[str]]]) -> None:
    assert found(body) == wanted


@pytest.mark.parametrize(("name", "lines"), [("f16x2.e4m3x2", []), ("f32.u16", [4])])
def test_packed_numbers_are_none(name: str, lines: list[int]) -> None:
    text = f""".version 8.0 .target sm_90 .address_size 64
.visible .entry k(.param .u64 x) {{ .reg .b16 %h; .reg .b32 %r; .reg .b64 %d;
ld.param.u64 %d, [x];
ld.shared.u16 %h, [0];
cvt.rn.{name} %r, %h;
st.global.u32 [%d], %r; ret; }}"""
    assert [line for line in unset.whole(of_kernel(text, "k"), {}) if line > 3] == lines
