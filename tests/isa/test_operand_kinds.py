"""Kinds of operands and statements in whole kernels: vectors of registers, special vectors, flags, what ends a text."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilewright.errors import PtxError
from tilewright.programs import Program
from tilewright.simt import launch

_THREADS = 48
_REGISTERS = (
    ".reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .f32 %f<4>; "
    ".reg .v2 .b32 %v<4>; .reg .v4 .b32 %q<4>;"
)


def ran(body: str, before: str = "", after: str = "", words: int = 1) -> np.ndarray:
    """%r1 (and %r2, %r3 ...) of each thread at the end: (words, threads)."""
    stores = " ".join(f"st.global.b32 [%d1+{4 * i * _THREADS}], %r{i + 1};" for i in range(words))
    text = f"""
.version 8.7
.target sm_90
.address_size 64
{before}
.visible .entry k(.param .u64 out) {{
{_REGISTERS}
mov.u32 %r0, %tid.x; mov.u32 %r15, %tid.y; mad.lo.u32 %r15, %r15, 16, %r0;
ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %r15, 4, %d0;
{body}
{stores}
ret;
}}{after}"""
    out = np.zeros(words * _THREADS, np.uint32)
    launch(Program.from_ptx(text), 1, (16, _THREADS // 16), (out,))
    return out.reshape(words, _THREADS)


X = np.arange(_THREADS) % 16
Y = np.arange(_THREADS) // 16


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mov.v2.u32 {%r1, %r2}, {%r0, 7};", (X, 7)),
        ("mov.v2.b32 %v1, {%r0, 5}; mov.b32 %r1, %v1.y; mov.b32 %r2, %v1.x;", (5, X)),
        ("mov.v2.b32 %v1, {1, 2}; mov.v2.b32 %v2, %v1; mov.v2.b32 {%r2, %r1}, %v2;", (2, 1)),
        ("mov.u32 %r1, %r0; mov.u32 %r2, 9; mov.v2.u32 {%r1, %r2}, {%r2, %r1};", (9, X)),
        ("mov.v4.u32 {%r1, %r2, _, _}, %tid;", (X, Y)),
        ("mov.v4.u32 {_, %r2, _, %r1}, %tid;", (0, Y)),
        ("mov.v4.u32 %q1, %ntid; mov.u32 %r1, %q1.x; add.u32 %r2, %q1.g, %q1.w;", (16, _THREADS // 16)),
        ("mov.v4.u32 {%r3, %r4, %r1, %r2}, %nctaid;", (1, 0)),
        ("mov.v2.f32 {%f1, %f2}, {0f3F800000, 2.0}; add.f32 %f1, %f1, %f2; cvt.rzi.u32.f32 %r1, %f1; mov.u32 %r2, 0;",
         (3, 0)),
        ("setp.lt.u32 %p1, %r0, 8; mov.v2.u32 {%r1, %r2}, {1, 2}; @%p1 mov.v2.u32 {%r1, %r2}, {%r2, %r0};",
         (np.where(X < 8, 2, 1), np.where(X < 8, X, 2))),
        ("mov.v2.b64 {%d2, %d3}, {%d1, 77}; cvt.u32.u64 %r1, %d3; sub.u64 %d2, %d2, %d1; cvt.u32.u64 %r2, %d2;",
         (77, 0)),
        ("mov.v4.b16 {%h1, %h2, %h3, %h4}, {1, 2, 3, 4}; cvt.u32.u16 %r1, %h4; cvt.u32.u16 %r2, %h1;", (4, 1)),
    ],
)  # fmt: skip
def test_moves_of_vectors(body, expected):
    np.testing.assert_array_equal(ran(body, words=2), [np.broadcast_to(e, _THREADS) for e in expected])


@pytest.mark.parametrize("name", ["%tid", "%ntid", "%ctaid", "%nctaid"])
@pytest.mark.parametrize(
    "read", ["mov.u32 %r1, {}.w;", "cvt.u32.u16 %r1, {}.w;", "mov.u16 %h1, {}.w; cvt.u32.u16 %r1, %h1;"]
)
def test_the_fourth_component_is_zero(name, read):
    assert not ran(read.format(name)).any()


@pytest.mark.parametrize("name", ["%laneid.w", "%tid.q", "%tid.xy", "%tid."])
def test_other_components_are_refused(name):
    with pytest.raises(PtxError):
        ran(f"mov.u32 %r1, {name};")


_PAIRS = ".func (.reg .v2 .b32 r) swap(.reg .v2 .b32 a) { mov.v2.b32 r, {a.y, a.x}; ret; }"
_MIXED = """.func (.reg .b32 r, .reg .v2 .b32 s) f(.reg .b32 a, .reg .v4 .b32 q)
{ add.u32 r, a, q.w; add.u32 s.x, q.x, 1; mov.b32 s.y, q.z; ret; }"""
_DEEP = (
    _PAIRS
    + """.func (.reg .v2 .b32 r) twice(.reg .v2 .b32 a)
{ .reg .v2 .b32 t; call (t), swap, (a); call (r), swap, (t); ret; }"""
)
_RECURSIVE = """.func (.reg .v2 .b32 r) down(.reg .v2 .b32 a)
{ .reg .pred p; .reg .v2 .b32 t; mov.v2.b32 r, a; setp.eq.u32 p, a.x, 0; @p ret;
  sub.u32 t.x, a.x, 1; add.u32 t.y, a.y, 2; call (r), down, (t); ret; }"""


@pytest.mark.parametrize(
    ("before", "body", "expected"),
    [
        (_PAIRS, "mov.v2.b32 %v1, {%r0, 3}; call (%v2), swap, (%v1); mov.v2.b32 {%r1, %r2}, %v2;", (3, X)),
        (_PAIRS, "call ({%r1, %r2}), swap, ({%r0, 4});", (4, X)),
        (_PAIRS, "mov.v2.b32 %v1, {%r0, 3}; call (%v1), swap, (%v1); mov.v2.b32 {%r1, %r2}, %v1;", (3, X)),
        (_DEEP, "mov.v2.b32 %v1, {%r0, 3}; call (%v2), twice, (%v1); mov.v2.b32 {%r1, %r2}, %v2;", (X, 3)),
        (_MIXED, "mov.v4.b32 %q1, {1, 2, 3, %r0}; call (%r1, %v1), f, (10, %q1); add.u32 %r2, %v1.x, %v1.y;",
         (X + 10, 5)),
        (_RECURSIVE, "mov.v2.b32 %v1, {%r0, 0}; call (%v2), down, (%v1); mov.v2.b32 {%r1, %r2}, %v2;", (0, 2 * X)),
    ],
)  # fmt: skip
def test_vectors_in_registers_are_parameters(before, body, expected):
    np.testing.assert_array_equal(ran(body, before, words=2), [np.broadcast_to(e, _THREADS) for e in expected])


@pytest.mark.parametrize(
    "after",
    ["", "\n", "// bye", "\n// bye", "\n// bye\n", "/* bye */", "\n/* a\nb */\n\n", "\n//", " // a // b\n/**/ ", "\0",
     "\n#line 3", '\n# 3 "f.cu"'],
)  # fmt: skip
def test_what_may_follow_the_last_brace(after):
    assert (ran("mov.u32 %r1, 5;", after=after) == 5).all()


@pytest.mark.parametrize("after", ["}", "/* never closed", "/", "x", ";", ".reg", '"open'])
def test_what_may_not_follow_the_last_brace(after):
    with pytest.raises(PtxError, match=r"kernel\.ptx:\d+: expected"):
        ran("mov.u32 %r1, 5;", after=after)


@pytest.mark.parametrize(
    "make",
    ["createpolicy.fractional.L2::evict_last.b64 %d2, 1.0;", "createpolicy.fractional.L2::evict_first.b64 %d2;",
     "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %d2, 0.5;",
     "createpolicy.fractional.b64.L2::evict_normal %d2, 0.25;", "mov.f32 %f1, 0.5; "
     "createpolicy.fractional.L2::evict_last.b64 %d2, %f1;",
     "createpolicy.range.L2::evict_last.b64 %d2, [%d0], 64, 128;",
     "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %d2, [%d0], 64, 128;",
     "createpolicy.range.global.L2::evict_first.b64 %d2, [%d0+64], %r0, 128;",
     "createpolicy.cvt.L2.b64 %d2, 0x10F0000000000000;", "createpolicy.cvt.L2.b64 %d2, %d0;"],
)  # fmt: skip
def test_a_cache_policy_changes_nothing(make):
    body = f"{make} st.global.L2::cache_hint.b32 [%d1], 6, %d2; ld.global.L2::cache_hint.b32 %r1, [%d1], %d2;"
    assert (ran(body) == 6).all()


def chain(rng: random.Random) -> tuple[list[str], list[int]]:
    """Sums and differences that hand the flag on, in every mixture, with what a carry of a + b and a + ~b + 1 gives."""
    lines, results, carry = [], [], 0
    for index in range(8):
        bits = rng.choice([32, 64])
        a, b = (rng.choice([0, 1, (1 << bits) - 1, 1 << bits - 1, rng.getrandbits(bits)]) for _ in "ab")
        opcode = rng.choice(["add", "sub"]) if index == 0 else rng.choice(["add", "sub", "addc", "subc"])
        sets = index == 0 or opcode in ("add", "sub") or rng.random() < 0.6
        if opcode.endswith("c"):
            total = a + (b if opcode == "addc" else ~b % (1 << bits)) + carry
        else:
            total = a + b if opcode == "add" else a + ~b % (1 << bits) + 1
        carry = total >> bits if sets else carry
        results.append(total % (1 << bits))
        lines.append(f"{opcode}{'.cc' if sets else ''}.u{bits} %s{index}, {a:#x}, {b:#x};")
    lines.append("addc.u32 %s8, 0, 0;")
    return lines, [*results, carry]


@pytest.mark.parametrize("seed", range(4))
def test_the_flag_passes_between_sums_and_differences(seed):
    rng = random.Random(seed)
    text, wanted = [], []
    for _ in range(8):
        lines, results = chain(rng)
        widths = [64 if ".u64" in line else 32 for line in lines]
        text.append("{ " + " ".join(f".reg .b{w} %s{i};" for i, w in enumerate(widths)) + " ".join(lines))
        for index, (result, width) in enumerate(zip(results, widths, strict=True)):
            for _part in range(width // 32):
                low = f"cvt.u32.u64 %r9, %s{index}; shr.u64 %s{index}, %s{index}, 32;"
                text.append(low if width == 64 else f"mov.b32 %r9, %s{index};")
                text.append("mad.lo.u32 %r1, %r1, 0x9E3779B1, %r9;")
                wanted.append(result >> 32 * _part & 0xFFFFFFFF)
        text.append("}")
    expected = 0
    for word in wanted:
        expected = (expected * 0x9E3779B1 + word) % (1 << 32)
    assert (ran("mov.u32 %r1, 0;\n" + "\n".join(text)) == expected).all()


@pytest.mark.parametrize("name", ["begin", "0", "1"])
def test_reserved_shared_memory_begins_with_zeros(name):
    body = f"mov.u32 %r9, %reserved_smem_offset_{name}; ld.shared.u32 %r1, [%r9]; bar.sync 0; st.shared.u32 [%r9], 7; "
    assert not ran(body + "bar.sync 0; ld.shared.u32 %r2, [%r9]; sub.u32 %r2, %r2, 7; add.u32 %r1, %r1, %r2;").any()


def test_reserved_shared_memory_does_not_overlap_variables():
    body = "mov.u32 %r1, held; mov.u32 %r2, %reserved_smem_offset_begin; mov.u32 %r3, %reserved_smem_offset_end;"
    held, begin, end = ran(body, ".shared .b32 held[64];", words=3)[:, 0]
    assert end - begin == 1024
    assert held + 256 <= begin or held >= end


@pytest.mark.parametrize("shift", ["shl.b16", "shr.u16", "shr.s16"])
@pytest.mark.parametrize("amount", [15, 16, 17, 65536, 65537, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_literal_amount_of_a_16_bit_shift_is_not_cut_to_16_bits(shift: str, amount: int) -> None:
    out = np.zeros(1, np.uint32)
    text = f""".version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) {{ .reg .b32 %r1; .reg .b16 %h1; .reg .b64 %d1;
ld.param.u64 %d1, [p]; mov.u16 %h1, 40001; {shift} %h1, %h1, {amount}; cvt.u32.u16 %r1, %h1; st.global.u32 [%d1], %r1;
ret; }}"""
    launch(Program.from_ptx(text), 1, 1, (out,))
    count = min(amount, 16)
    signed = 40001 - 65536 if shift == "shr.s16" else 40001
    assert out[0] == (signed << count if "shl" in shift else signed >> count) & 0xFFFF
