"""A launch of many short blocks can be stopped between them."""

from __future__ import annotations

import time

import numpy as np
import pytest
from ptx_kernels import kernel

from tilewright import simt
from tilewright.errors import LimitError, PtxError
from tilewright.instruments import Coalescing
from tilewright.multiply.kernels import catalogue
from tilewright.programs import Program
from tilewright.simulate.translate.analysis import inline


def test_a_limit_of_seconds_holds_although_no_warp_runs_long() -> None:
    record = catalogue.find("global_memory")
    a = np.ones((1024, 1024), np.int32)
    c = np.zeros_like(a)
    shape = record.launch_rule(*a.shape, a.shape[1])
    start = time.perf_counter()
    with pytest.raises(LimitError, match="global_memory"):
        simt.launch(
            record.program("int32"),
            shape.grid,
            shape.block,
            record.arguments(a, a, c),
            instruments=[Coalescing()],
            limits=simt.Limits(seconds=0.02),
        )
    assert time.perf_counter() - start < 10


def test_a_loop_of_nothing_but_barriers_is_stopped() -> None:
    program = kernel("again: bar.sync 0; bra again;", 0, prelude=False)
    with pytest.raises(LimitError, match="10,000 warp instructions"):
        simt.launch(program, 1, 64, (), limits=simt.Limits(instructions=10_000))
    with pytest.raises(LimitError, match=r"0\.2 seconds"):
        simt.launch(program, 1, 64, (), limits=simt.Limits(seconds=0.2))


def test_a_loop_through_a_uniform_indexed_branch_is_stopped() -> None:
    program = kernel("mov.u32 %r1, 0; places: .branchtargets again; again: brx.idx %r1, places;", 0, prelude=False)
    with pytest.raises(LimitError, match="10,000 warp instructions"):
        simt.launch(program, 1, 64, (), limits=simt.Limits(instructions=10_000))


@pytest.mark.parametrize("arms", [2, 3])
def test_lanes_that_wait_for_each_other_at_different_shuffles_continue(arms: int) -> None:
    shuffle = "shfl.sync.idx.b32 %r, %t, 0, 31, -1;"
    branches = "".join(f"setp.eq.u32 %p, %m, {arm}; @%p bra arm{arm};\n" for arm in range(arms))
    bodies = "".join(f"arm{arm}: {shuffle} {shuffle} bra end;\n" for arm in range(arms))
    text = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry split(.param .u64 out)
{{
  .reg .pred %p; .reg .b32 %r, %t, %m; .reg .b64 %a;
  ld.param.u64 %a, [out]; mov.u32 %t, %tid.x; mad.wide.u32 %a, %t, 4, %a; rem.u32 %m, %t, {arms};
  {branches} bra end;
  {bodies}
end: st.global.u32 [%a], %t;
}}
"""
    out = np.zeros(64, np.int32)
    simt.launch(Program.from_ptx(text), 1, 64, (out,), limits=simt.Limits(instructions=100_000))
    assert out.tolist() == list(range(64))


@pytest.mark.parametrize("load", ["ld.global.cv.u32 %r, [%a];", "membar.gl; ld.global.u32 %r, [%a];"])
def test_a_lane_that_waits_for_another_of_its_warp_lets_it_continue(load: str) -> None:
    text = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry wait(.param .u64 flag)
{{
  .reg .pred %p; .reg .b32 %r; .reg .b64 %a;
  ld.param.u64 %a, [flag]; mov.u32 %r, %tid.x; setp.eq.u32 %p, %r, 31; @%p bra raise;
again: {load} setp.eq.u32 %p, %r, 0; @%p bra again;
  bra end;
raise: st.global.u32 [%a], 5;
end: ret;
}}
"""
    flag = np.zeros(1, np.int32)
    simt.launch(Program.from_ptx(text), 1, 32, (flag,), limits=simt.Limits(instructions=1_000_000))
    assert flag.tolist() == [5]


def test_a_one_dimensional_launch_concerns_only_the_kernel_itself() -> None:
    text = """
.version 8.0
.target sm_90
.address_size 64
.visible .func k_other()
{
  .reg .b32 %r;
  mov.u32 %r, %tid.y;
}
.visible .entry k()
{
  ret;
}
"""
    assert simt.launch(Program.from_ptx(text, "k"), 1, 32, ()).warp_instructions == 1


def test_a_kernel_too_long_to_compile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert inline.INSTRUCTIONS_MAX == 100_000  # so many lines take seconds to read
    monkeypatch.setattr(inline, "INSTRUCTIONS_MAX", 1000)
    body = "add.u32 %r1, %r1, 1;\n" * 1001
    text = (
        f".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry long()\n{{\n.reg .u32 %r1;\n{body}ret;\n}}\n"
    )
    with pytest.raises(PtxError, match=r"'long' must have at most 1,000 instructions \(got 1,002\)"):
        simt.launch(Program.from_ptx(text), 1, 1, ())


def test_an_error_of_translation_is_raised_by_the_launch() -> None:
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\nfrobnicate.u32 %r1;\nret;\n}\n"
    with pytest.raises(PtxError, match="frobnicate"):
        simt.launch(Program.from_ptx(text), 1, 1, ())
