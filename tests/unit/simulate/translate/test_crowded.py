"""Functions of many blocks in which lanes wait: code shared by ends of blocks acts like separate code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ptx_kernels import words

from tilewright.simulate.run import kernels
from tilewright.simulate.translate.analysis.frontier import thread_frontiers
from tilewright.simulate.translate.analysis.graph import build
from tilewright.simulate.translate.lowering import flow, turns

LOOPS = """mov.u32 %r1, 0; mov.u32 %r2, 0; and.b32 %r3, %tid, 7;
    OUTER: setp.ge.u32 %p1, %r2, %r3; @%p1 bra DONE;
      mov.u32 %r4, 0; add.u32 %r5, %r2, %lane; rem.u32 %r5, %r5, 5;
      INNER: setp.ge.u32 %p2, %r4, %r5; @%p2 bra NEXT;
        mad.lo.u32 %r1, %r1, 3, %r4; add.u32 %r4, %r4, 1; bra INNER;
      NEXT: add.u32 %r1, %r1, %r2; add.u32 %r2, %r2, 1; bra OUTER;
    DONE: st.global.u32 [%at], %r1;"""
#: Lanes take a lock in turn: those that spin must let its holder continue.
LOCK = """mov.u32 %r1, 0;
    TRY: atom.global.cas.b32 %r2, [%out+1024], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra TRY;
    ld.volatile.global.u32 %r3, [%out+1028]; add.u32 %r3, %r3, 1; st.volatile.global.u32 [%out+1028], %r3;
    membar.gl; atom.global.exch.b32 %r4, [%out+1024], 0; st.global.u32 [%at], %r3;"""
MEET = """and.b32 %r1, %tid, 3; setp.eq.u32 %p1, %r1, 0; @%p1 bra APART;
    mov.u32 %r2, 5; bra JOIN; APART: mov.u32 %r2, 9;
    JOIN: shfl.sync.idx.b32 %r3, %r2, 0, 31, -1; add.u32 %r3, %r3, %r2; bar.sync 0; st.global.u32 [%at], %r3;"""


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Every function is crowded, and no translation of another one is found."""
    monkeypatch.setattr(flow, "CROWD_TESTS", -1)
    monkeypatch.setattr(turns, "_TESTS_IN_PLACE", 0)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    kernels.kernel_store.cache_clear()
    yield
    kernels.kernel_store.cache_clear()


@pytest.mark.usefixtures("crowded")
@pytest.mark.parametrize("body", [LOOPS, MEET], ids=["loops", "meet"])
def test_crowded_functions_give_the_same_results(body: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    got = words(body, 70, block=70)
    monkeypatch.setattr(flow, "CROWD_TESTS", 1 << 30)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "plain"))
    kernels.kernel_store.cache_clear()
    assert got.tolist() == words(body, 70, block=70).tolist()


@pytest.mark.usefixtures("crowded")
def test_lanes_that_spin_let_others_continue() -> None:
    got = words(LOCK, 258, block=64)
    assert sorted(got[:64].tolist()) == list(range(1, 65))
    assert got[257] == 64


def test_an_end_that_all_blocks_share_keeps_the_text_short() -> None:
    """A chain of n lanes' loops with a spin makes every block wait for every other: n squared tests."""
    from tilewright.simulate.ptx.parser import parse
    from tilewright.simulate.translate.analysis.special import LaunchClass
    from tilewright.simulate.translate.translation import translate

    def length(count: int) -> int:
        loops = "".join(
            f"L{i}: ld.volatile.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, %r2; @%p1 bra L{i};\n"
            for i in range(count)
        )
        text = (
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .b32 %r<3>;\n"
            ".reg .b64 %rd<2>;\n.reg .pred %p<2>;\nld.param.u64 %rd1, [p]; mov.u32 %r2, %tid.x;\n" + loops + "ret; }"
        )
        return len(translate(parse(text), "k", LaunchClass.of((32, 1, 1), (1, 1, 1))).ir)

    assert length(200) < 3 * length(100)


def test_frontiers_of_a_diamond() -> None:
    from tilewright.simulate.ptx.parser import parse

    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<3>;\n.reg .pred %p<2>;\n"
        "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra B;\nmov.u32 %r2, 1; bra C;\n"
        "B: mov.u32 %r2, 2;\nC: ret; }"
    )
    graph = build(parse(text).functions["k"], "k.ptx")
    first, one, other, join = (block.index for block in graph.blocks)
    assert thread_frontiers(graph, {first}) == [set(), {other}, {join}, set()]
    assert (one, other) == (1, 2)
    assert thread_frontiers(graph, set()) == [set()] * len(graph.blocks)
