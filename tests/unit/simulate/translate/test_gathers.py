"""Loads and stores at one place for each lane: the host's instructions, the runtime's loop, windows with shuffles."""

from __future__ import annotations

import re

import numpy as np
import pytest
from emitted_text import HOSTS, NARROW, WIDE, calls, emitted
from narrow_hosts import use_host
from ptx_kernels import kernel, run

from tilewright.simulate.translate.analysis.pieces import WHOLE_COST

#: Bytes of an element and elements of an access.
FORMS = [(1, 1), (1, 4), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4), (8, 1), (8, 2), (16, 1)]
#: A lane's index from its thread's: loaded, with separate elements or with elements that several lanes share.
INDICES = {
    "loaded": "mad.wide.u32 %d1, %r2, 4, %a1; ld.global.u32 %r1, [%d1+4];",
    "neighbours": "mov.u32 %r1, %r2;",
    "every third": "mul.lo.u32 %r1, %r2, 3;",
    "far apart": "mul.lo.u32 %r1, %r2, 47;",
    "four in turn": "and.b32 %r1, %r2, 3;",
    "eight in turn": "and.b32 %r1, %r2, 7;",
}
COPY = """mov.u32 %r2, %tid.x; ld.global.u32 %r9, [%a1]; setp.ge.u32 %p1, %r2, %r9; @%p1 bra END; {index}
    mad.wide.u32 %d2, %r1, {step}, %a2; mad.wide.u32 %d3, %r1, {step}, %out;
    ld.global.{form} {registers}, [%d2]; st.global.{form} [%d3], {registers}; END:"""
THREADS, ROOM = 40, 47 * 40


def copy(size: int, count: int, index: str) -> str:
    registers = [f"%v{i}" for i in range(count)]
    return COPY.format(
        index=index,
        step=size * count,
        form=f"{f'v{count}.' if count > 1 else ''}b{8 * size}",
        registers=f"{{{', '.join(registers)}}}" if count > 1 else registers[0],
    )


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("index", INDICES)
def test_elements_of_every_width_at_any_place_under_any_mask(monkeypatch, host, index):
    use_host(monkeypatch.setattr, host)
    loaded = np.random.default_rng(0).permutation(ROOM)[:THREADS]
    threads = np.arange(THREADS)
    chosen = {
        "loaded": loaded, "neighbours": threads, "every third": 3 * threads, "far apart": 47 * threads,
        "four in turn": threads & 3, "eight in turn": threads & 7,
    }[index]  # fmt: skip
    # Every form at places that are loaded; at places of a pattern, every second, the other half at the next pattern.
    first = list(INDICES).index(index) % 2
    for size, count in FORMS if index == "loaded" else FORMS[first::2]:
        width = size * count
        declared = f".reg .b{max(16, 8 * size)} %v<{count}>;"
        program = kernel(copy(size, count, INDICES[index]), 3, declarations=declared)
        source = np.random.default_rng(width).integers(1, 255, (ROOM, width), np.uint8)
        for limit in (THREADS, 33, 7):
            out = np.zeros((ROOM, width), np.uint8)
            run(program, out, np.array([limit, *loaded], np.uint32), source, block=THREADS)
            wanted = np.zeros_like(out)
            wanted[chosen[:limit]] = source[chosen[:limit]]
            assert (out == wanted).all(), (size, count, limit)


BRANCH = "setp.lt.u32 %p1, %r30, 7; @!%p1 bra OUT; {} OUT: "


def test_the_runtime_moves_elements_without_a_host_instruction():
    word = "ld.global.u32 %r1, [%a1]; and.b32 %r2, %r30, %r1; mad.wide.u32 %d1, %r2, 4, %out; "
    store = word + BRANCH.format("st.global.u32 [%d1], %r30;")
    assert calls(emitted(store, host=WIDE), "scatter") == 1
    assert "tw_scatter" not in emitted(store, host=WIDE)
    move = "cvt.u16.u32 %h1, %r30; st.global.u8 [%d1], %h1; ld.global.u8 %h2, [%d1+1];"
    narrow = [emitted(word + BRANCH.format(move), host=host) for host in (WIDE, NARROW)]
    for text in (emitted(store, host=NARROW), *narrow):
        assert calls(text, "scatter") == calls(text, "gather") == 0
        assert text.count("call void @tw_scatter(") == 1
    assert [text.count("call void @tw_gather(") for text in narrow] == [1, 1]
    assert calls(emitted(word + move, host=NARROW), "scatter") == 1  # a full warp's moves need no branches
    long = "add.u32 %r3, %r3, %r1;" * WHOLE_COST
    assert "llvm.masked" not in emitted(word + move + long, host=NARROW)  # but they take long to compile


def test_a_vector_of_elements_is_one_window_or_one_call():
    rows = "mad.wide.u32 %d1, %r30, 16, %out; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];"
    text = emitted(rows)
    assert text.count("load <32 x i32>") == 4  # the 128 elements, once
    store = "st.global.v4.u32 [%d1], {%r30, %r30, %r30, %r30};"
    apart = "mad.wide.u32 %d1, %r30, 512, %out; " + BRANCH.format(store)
    assert emitted(apart, host=NARROW).count("call void @tw_scatter(") == 1
    assert calls(emitted(apart, host=WIDE), "scatter") == 4


def test_vectors_are_shuffled_by_32():
    """LLVM splits shuffles of other widths into elements, and takes minutes for some hundred."""
    for step in (8, 12, 20):
        text = emitted(f"mad.wide.u32 %d1, %r30, {step}, %out; ld.global.u32 %r1, [%d1]; st.global.u32 [%d30], %r1;")
        assert set(re.findall(r"shufflevector <(\d+) x i32>", text)) == {"32"}
        assert calls(text, "gather") == 0
