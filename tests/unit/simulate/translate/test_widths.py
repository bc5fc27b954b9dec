"""Registers must be as wide as the type they are used as, with the manual's exceptions."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import PtxError
from tilewright.programs import Program
from tilewright.simt import launch

_HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x)\n{\n"
_REGISTERS = (
    """.reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .f32 %f<3>; .reg .b16 %h<3>; .reg .b8 %c<3>; .reg .pred %p<3>; """
)
_REGISTERS += ".reg .b128 %q<3>; .shared .b64 s; ld.param.u64 %rd3, [x];\n"


def run(line: str) -> None:
    launch(Program.from_ptx(f"{_HEAD}{_REGISTERS}{line}\nret;\n}}\n"), 1, 1, (np.zeros(8, np.uint64),))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("add.s64 %rd1, %r1, 5;", r"operand a of 'add\.s64' must be 64 bits wide \(got %r1, \.b32\); declare the"),
        ("add.s32 %rd1, %r1, 5;", r"operand d of 'add\.s32' must be 32 bits wide \(got %rd1, \.b64\)"),
        ("add.f32 %f1, %f2, %rd1;", r"operand b of 'add\.f32' must be 32 bits wide \(got %rd1, \.b64\)"),
        ("mul.wide.s32 %r1, %r1, %r2;", r"operand d of 'mul\.wide\.s32' must be 64 bits wide"),
        ("mov.b32 %r1, %h1;", r"operand a of 'mov\.b32' must be 32 bits wide \(got %h1, \.b16\)"),
        ("mov.b64 {%r1, %h1}, %rd1;", r"an element of operand d of 'mov\.b64' must be 32 bits wide \(got %h1, \.b16\)"),
        ("mov.b64 %rd1, {%r1, %r2, %r3};", r"operand a of 'mov\.b64' must be pieces of 64 bits \(got 3 in braces\)"),
        ("shl.b64 %rd1, %rd1, %rd2;", r"operand b of 'shl\.b64' must be 32 bits wide"),
        ("ld.u64 %r1, [%rd3];", r"operand d of 'ld\.u64' must be at least 64 bits wide \(got %r1, \.b32\)"),
        ("ld.v2.u32 {%r1, %h1}, [%rd3];", r"an element of operand d of 'ld\.v2\.u32' must be at least 32 bits wide"),
        ("st.u64 [%rd3], %r1;", r"operand b of 'st\.u64' must be at least 64 bits wide \(got %r1, \.b32\)"),
        ("st.u8 [%rd3], %p1;", r"operand b of 'st\.u8' must be at least 8 bits wide \(got %p1, \.pred\)"),
        ("cvt.u64.u32 %r1, %r2;", r"operand d of 'cvt\.u64\.u32' must be at least 64 bits wide"),
        ("cvt.u32.u16 %r1, %c1;", r"operand a of 'cvt\.u32\.u16' must be at least 16 bits wide \(got %c1, \.b8\)"),
        ("atom.add.u64 %rd1, [%rd3], %r1;", r"operand b of 'atom\.add\.u64' must be 64 bits wide"),
        ("atom.add.u32 %rd1, [%rd3], %r1;", r"operand d of 'atom\.add\.u32' must be 32 bits wide"),
        ("ld.u32 %r1, [%q1];", r"the address a of 'ld\.u32' must be 8 to 64 bits wide \(got %q1, \.b128\)"),
        ("ld.u32 %r1, [%p1];", r"the address a of 'ld\.u32' must be 8 to 64 bits wide \(got %p1, \.pred\)"),
        ("bar.sync %rd1;", r"operand a of 'bar\.sync' must be 32 bits wide"),
        ("bar.red.popc.u32 %r1, 0, %r2;", r"operand c of 'bar\.red\.popc\.u32' must be a predicate \(got %r2, \.b32\)"),
        ("shfl.sync.idx.b32 %r1|%r2, %r1, 0, 31, -1;", r"operand p of 'shfl\.sync\.idx\.b32' must be a predicate"),
        ("setp.eq.u32 %p1|%r1, %r1, 0;", r"operand q of 'setp\.eq\.u32' must be a predicate \(got %r1, \.b32\)"),
        ("selp.u32 %r1, 1, 2, !%r1;", r"operand c of 'selp\.u32' must be a predicate"),
        ("@%r1 bra L; L:", r"guard of 'bra' must be a predicate \(got %r1, \.b32\); make one with setp"),
        ("@!%r1 mov.u32 %r1, 1;", r"guard of 'mov\.u32' must be a predicate"),
        ("brx.idx %rd1, T; L: T: .branchtargets L;", r"operand a of 'brx\.idx' must be 32 bits wide"),
        ("add.s32 %r1, {%h1, %h2}, 5;", r"operand a of 'add\.s32' must be one register \(got 2 in braces\)"),
        ("ld.v2.u32 %rd1, [%rd3];", r"operand d of 'ld\.v2\.u32' must be 2 registers in braces \(got no braces\)"),
        ("prefetch.global.L2 %rd3;", r"operand a of 'prefetch\.global\.L2' must be an address in brackets"),
        ("cp.async.bulk.prefetch.tensor.2d.L2.global %rd1;", r"operand tensor of '.*' must be an address in brackets"),
        ("st.v2.u32 [%rd3], 5;", r"operand b of 'st\.v2\.u32' must be 2 registers in braces \(got no braces\)"),
    ],
)  # fmt: skip
def test_a_register_of_another_width_is_refused(line: str, message: str) -> None:
    with pytest.raises(PtxError, match=r"kernel\.ptx:7: " + message):
        run(line)


@pytest.mark.parametrize(
    "line",
    [
        "add.s64 %rd1, %rd2, 5;", "mul.wide.s32 %rd1, %r1, %r2;", "mov.b32 %f1, %r1;", "shl.b64 %rd1, %rd1, %r1;",
        "cvt.u16.u8 %h1, %r1;", "cvt.u16.u8 %rd1, %rd2;", "ld.u8 %rd1, [%rd3];", "ld.f32 %rd1, [%rd3];",
        "ld.v2.u16 {%r1, %rd1}, [%rd3];", "st.f32 [%rd3], %rd1;", "st.v2.u8 [%rd3], {%r1, %c1};", "st.u32 [%rd3], %q1;",
        "mov.b64 {%r1, _}, %rd1;", "mov.b64 %rd1, {%r1, 7};", "mov.b32 {%c1, %c2, %c1, %c2}, %r1;",
        "ld.shared.u64 %rd1, [%h1];", "isspacep.shared %p1, %r1;", "atom.add.u32 _, [%rd3], %r1;",
        "bar.red.popc.u32 %r1, 0, %p1;", "bar.red.popc.u32 %r1, 0, 32, !%p1;", "setp.eq.u32 %p1|_, %r1, 0;",
    ],
)  # fmt: skip
def test_the_right_width_is_accepted(line: str) -> None:
    run(line)


@pytest.mark.parametrize("line", ["bar.sync 16;", "bar.sync 1, 48;", "bar.sync 1, 0;", "barrier.sync 99, 64;"])
def test_barriers_that_no_gpu_has_are_refused(line: str) -> None:
    with pytest.raises(PtxError, match=r"kernel\.ptx:7: the (barrier|threads) of '.*' must be"):
        launch(Program.from_ptx(f"{_HEAD}{_REGISTERS}{line}\nret;\n}}\n"), 1, 64, (np.zeros(1, np.uint32),))
