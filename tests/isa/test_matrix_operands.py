"""Instructions whose operands are lists of registers: their checks, what lanes write, and the GPU's rules."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import PtxError
from tilewright.programs import Program
from tilewright.simt import launch

_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_ONES = "0x3C003C00"  # two float16
_A, _B = "{%r1,%r1,%r1,%r1}", "{%r1,%r1}"
_C = "{%f0,%f1,%f2,%f3}"


def program(body: str) -> Program:
    """A kernel that stores %f0 of each lane."""
    return Program.from_ptx(f"""
.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {{
.reg .pred %p<4>; .reg .b16 %h; .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .b64 %d<4>;
mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %r0, 4, %d0;
mov.b32 %r1, {_ONES}; mov.f32 %f0, 0f40E00000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
{body}
st.global.f32 [%d1], %f0; ret;
}}""")


def ran(body: str, gpu: str | None = None) -> np.ndarray:
    out = np.zeros(32, np.float32)
    launch(program(body), 1, 32, (out,), gpu=gpu)
    return out


def test_registers_of_a_list_are_read_and_written():
    assert (ran(f"{_MMA} {_C}, {_A}, {_B}, {_C};") == 23).all()


def test_literals_and_discarded_results():
    assert (ran(f"{_MMA} {{%f0,_,_,_}}, {_A}, {_B}, {{0f3F800000,0f00000000,%f2,%f3}};") == 17).all()


@pytest.mark.parametrize("guard", ["@%p1 ", "@!%p1 "])
def test_a_false_guard_keeps_a_lanes_registers(guard):
    body = f"""setp.lt.u32 %p1, %r0, 8;
{guard}{_MMA} {_C}, {_A}, {_B}, {_C};"""
    executes = (np.arange(32) < 8) == (guard == "@%p1 ")
    np.testing.assert_array_equal(ran(body), np.where(executes, 23, 7))


def test_a_uniform_guard_decides_for_all():
    body = f"""setp.eq.u32 %p1, %r1, 0;
@%p1 {_MMA} {_C}, {_A}, {_B}, {_C};"""
    assert (ran(body) == 7).all()


def test_a_loop_accumulates():
    body = f"""mov.u32 %r2, 0;
again: {_MMA} {_C}, {_A}, {_B}, {_C};
add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 5; @%p1 bra again;"""
    assert (ran(body) == 7 + 5 * 16).all()


def test_the_launchs_gpu_decides_how_products_are_added():
    # 2^24 as C, and sixteen products of 1: each is cut off below 2^(24 - 24) or 2^(24 - 25).
    # As products of 0.5 they count with 25 fraction bits, and not with 24.
    body = f"""mov.b32 %r1, 0x38003C00; mov.b32 %r2, 0x3C000000; mov.f32 %f0, 0f4B800000;
{_MMA} {_C}, {_A}, {{%r2,%r2}}, {{%f0,%f0,%f0,%f0}};"""
    assert (ran(body, "a100") == 2**24).all()
    assert (ran(body, "h100") == 2**24 + 4).all()


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ("{%f0,%f1,%f2}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%f0,%f1,%f2,%f3}",
         r"operand d of .* must be 4 registers in braces \(got 3 in braces\); the name sets their number"),
        ("{%f0,%f1,%f2,%f3}, {%r1,%r1}, {%r1,%r1}, {%f0,%f1,%f2,%f3}", "operand a of .* must be 4 registers in braces"),
        ("{%f0,%f1,%f2,%f3}, {%r1,%r1,%r1,%r1}, %r1, {%f0,%f1,%f2,%f3}",
         r"operand b of .* must be 2 registers in braces \(got no braces\)"),
        ("{%f0,%f1,%f2,%f3}, {%r1,%r1,%h,%r1}, {%r1,%r1}, {%f0,%f1,%f2,%f3}", r"32 bits wide \(got %h, .b16\)"),
        ("{%f0,%f1,%f2,%f3}, {%r1,%r1,%nope,%r1}, {%r1,%r1}, {%f0,%f1,%f2,%f3}", "nope"),
        ("{%f0,%f1,%f2,%f3}, {%r1,%r1,%r1,%r1}, {%r1,%r1}", "takes 4 operands"),
    ],
)  # fmt: skip
def test_lists_that_do_not_fit_are_refused(operands, message):
    with pytest.raises(PtxError, match=message):
        ran(f"{_MMA} {operands};")
