"""Long kernels in pieces: functions of bounded size that give the same results as one, for any cuts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from ptx_kernels import kernel, run
from random_graphs import wrong_threads

from tilewright.errors import MemoryAccessError
from tilewright.instruments import Coalescing, Divergence, Mix
from tilewright.simt import Limits
from tilewright.simulate.ptx.parser import parse
from tilewright.simulate.run import kernels
from tilewright.simulate.translate.analysis import graph, inline, pieces
from tilewright.simulate.translate.analysis.special import LaunchClass
from tilewright.simulate.translate.translation import translate

LIVE = 16


def steps(count: int) -> str:
    """A straight line of `count` steps in which each register depends on two others."""
    start = "".join(f"add.u32 %r{i}, %lane, {i};" for i in range(LIVE))
    line = "".join(f"mad.lo.u32 %r{i % LIVE}, %r{(i * 5 + 1) % LIVE}, 3, %r{(i * 3 + 2) % LIVE};" for i in range(count))
    total = "".join(f"xor.b32 %r0, %r0, %r{i};" for i in range(1, LIVE))
    return f"{start}{line}{total}"


def wanted_after(count: int) -> np.ndarray:
    """The value of %r0 after `steps`, for each lane."""
    registers = [np.arange(32, dtype=np.uint32) + np.uint32(i) for i in range(LIVE)]
    for i in range(count):
        registers[i % LIVE] = registers[(i * 5 + 1) % LIVE] * np.uint32(3) + registers[(i * 3 + 2) % LIVE]
    return np.bitwise_xor.reduce(registers)


def functions(count: int) -> list[int]:
    """Lines of each LLVM function of a straight line."""
    program = kernel(steps(count) + "st.global.u32 [%at], %r0;")
    text = translate(parse(program.ptx), "k", LaunchClass((32, 1, 1))).ir
    return [len(body.splitlines()) for body in re.findall(r"^define .*?^}", text, re.MULTILINE | re.DOTALL)]


@pytest.fixture
def cut_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Pieces of a few instructions; other translations are not in the cache."""
    monkeypatch.setattr(pieces, "WHOLE_COST", 0)
    monkeypatch.setattr(pieces, "PIECE_COST", 5)
    monkeypatch.setattr(graph, "BLOCK_OPS", 3)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    kernels.kernel_store.cache_clear()
    yield
    kernels.kernel_store.cache_clear()


def test_functions_stay_small_for_any_length_of_the_kernel() -> None:
    short, long = functions(2000), functions(8000)
    assert max(long) < 1.2 * max(short)
    assert sum(long) < 4.4 * sum(short)
    assert len(long) > 8


def test_a_short_kernel_is_one_function() -> None:
    assert len(functions(600)) == 1


def test_a_long_line_computes_the_same() -> None:
    out = np.zeros(32, np.uint32)
    run(kernel(steps(2000) + "st.global.u32 [%at], %r0;"), out)
    assert (out == wanted_after(2000)).all()


def test_cuts_are_outside_loops_if_possible() -> None:
    loop = "mov.u32 %r20, 0; L: add.u32 %r20, %r20, 1;" + steps(350) + "setp.lt.u32 %p1, %r20, 9; @%p1 bra L;"
    program = kernel(steps(600) + loop + steps(800))
    module = parse(program.ptx)
    made = graph.build(inline.inline_calls(module, module.functions["k"]), "k.ptx")
    found = pieces.cut(made)
    assert len(found) > 1
    for tail, header in made.back_edges:
        assert sum(header in piece.blocks for piece in found if tail in piece.blocks) == 1


@pytest.mark.usefixtures("cut_everywhere")
@pytest.mark.parametrize("quantum", [None, 3], ids=["plain", "yielding"])
def test_random_flow_in_small_pieces(quantum: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random flow graphs against one thread at a time; with almost no fuel a warp leaves at every back edge."""
    if quantum:
        monkeypatch.setattr("tilewright.simulate.run.execution.QUANTUM", quantum)
    for seed in range(300, 310):
        assert wrong_threads(seed) == []


@pytest.mark.usefixtures("cut_everywhere")
def test_lanes_diverge_and_reconverge_across_pieces() -> None:
    """Half of the lanes take a long path; all reconverge at a shuffle, then wait at a barrier before reads."""
    body = f"""{steps(20)} and.b32 %r40, %lane, 1; setp.eq.u32 %p1, %r40, 0; mov.u32 %r41, %r0; @%p1 bra EVEN;
    {"add.u32 %r41, %r41, 7;" * 11} bra JOIN;
    EVEN: {"add.u32 %r41, %r41, 5;" * 6}
    JOIN: shfl.sync.bfly.b32 %r42, %r41, 1, 31, -1; mul.wide.u32 %d9, %tid, 4; cvt.u32.u64 %r43, %d9;
    mov.u32 %r44, s; add.u32 %r45, %r44, %r43; st.shared.u32 [%r45], %r42; {steps(9)} bar.sync 0;
    xor.b32 %r46, %r43, 128; add.u32 %r46, %r44, %r46; ld.shared.u32 %r47, [%r46]; {steps(6)}
    st.global.u32 [%at], %r47;"""
    out = np.zeros(64, np.uint32)
    run(kernel(body, declarations=".shared .u32 s[64];"), out, block=64)
    lanes = np.arange(32)
    own = wanted_after(20) + np.where(lanes % 2 == 0, 30, 77).astype(np.uint32)
    assert (out == np.tile(own[lanes ^ 1], 2)).all()


@pytest.mark.usefixtures("cut_everywhere")
def test_guards_predicates_and_carries_cross_cuts() -> None:
    body = f"""setp.gt.u32 %p1, %lane, 9; setp.lt.u32 %p2, %block, 5; mov.u32 %r50, -1; mov.u32 %r51, 3;
    {steps(7)} add.cc.u32 %r52, %r50, %lane; addc.u32 %r53, %r51, 0; {steps(7)}
    mov.u32 %r54, 1; @%p1 mov.u32 %r54, 2; @!%p2 mov.u32 %r54, 9; {steps(4)}
    mad.lo.u32 %r55, %r53, 10, %r54; st.global.u32 [%at], %r55;"""
    out = np.zeros(32, np.uint32)
    run(kernel(body), out)
    lanes = np.arange(32)
    assert out.tolist() == (np.where(lanes > 0, 40, 30) + np.where(lanes > 9, 2, 1)).tolist()


@pytest.mark.usefixtures("cut_everywhere")
def test_a_register_that_was_never_written_is_zero_in_every_block() -> None:
    """One block after the other has the same record."""
    body = f"""and.b32 %r70, %block, 1; setp.ne.u32 %p1, %r70, 0; {steps(6)} @%p1 bra ODD; mov.u32 %r71, 9;
    ODD: {steps(6)} st.global.u32 [%at], %r71;"""
    out = np.zeros(256, np.uint32)
    run(kernel(body), out, grid=8, limits=Limits(seconds=30, threads=1))
    assert out.tolist() == ([9] * 32 + [0] * 32) * 4


@pytest.mark.usefixtures("cut_everywhere")
def test_calls_that_are_not_inlined_between_pieces() -> None:
    module = """.func (.param .u32 r) fact(.param .u32 n) { .reg .b32 %a<6>; .reg .pred %q;
    ld.param.u32 %a1, [n]; setp.lt.u32 %q, %a1, 2; mov.u32 %a2, 1; @%q bra D; sub.u32 %a3, %a1, 1;
    { .param .u32 m; .param .u32 s; st.param.u32 [m], %a3; call (s), fact, (m); ld.param.u32 %a4, [s]; }
    mul.lo.u32 %a2, %a1, %a4; D: st.param.u32 [r], %a2; ret; }"""
    body = f"""{steps(8)} and.b32 %r60, %lane, 7; {{ .param .u32 m; .param .u32 s; st.param.u32 [m], %r60;
    call (s), fact, (m); ld.param.u32 %r61, [s]; }} {steps(8)} st.global.u32 [%at], %r61;"""
    out = np.zeros(32, np.uint32)
    run(kernel(body, module=module), out)
    assert out.tolist() == [int(np.prod(np.arange(1, lane % 8 + 1))) for lane in range(32)]


@pytest.mark.usefixtures("cut_everywhere")
def test_a_fault_in_a_piece_names_its_place() -> None:
    body = f"{steps(12)}\nld.global.u32 %r60, [%out+100000000];\n{steps(9)} st.global.u32 [%at], %r60;"
    out = np.zeros(32, np.uint32)
    program = kernel(body)
    line = 1 + program.ptx[: program.ptx.index("[%out+100000000]")].count("\n")
    with pytest.raises(MemoryAccessError) as error:
        run(program, out)
    assert error.value.line == f"PTX line {line}"


def test_instruments_count_the_same_in_pieces(request: pytest.FixtureRequest) -> None:
    body = f"""{steps(40)} and.b32 %r40, %lane, 3; mov.u32 %r41, 0;
    L: add.u32 %r41, %r41, 1; {steps(11)} setp.lt.u32 %p1, %r41, %r40; @%p1 bra L;
    @%p1 add.u32 %r0, %r0, 1; st.global.u32 [%at], %r0; {steps(9)} st.global.u32 [%at+4096], %r0;"""

    def observed() -> tuple[object, ...]:
        out = np.zeros(2048, np.uint32)
        found = run(kernel(body), out, grid=2, block=64, instruments=(Mix(), Coalescing(), Divergence())).results
        mix = found["mix"]
        counts = (mix.warp_instructions, mix.thread_instructions, mix.lines())
        return out.tolist(), counts, found["coalescing"], found["divergence"]

    whole = observed()
    request.getfixturevalue("cut_everywhere")
    assert observed() == whole
