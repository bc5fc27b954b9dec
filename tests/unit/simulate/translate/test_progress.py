"""Independent progress: threads that wait in a loop for what another thread writes."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run, words

SEEDS = [None, 0, 1, 2, 3]


def test_lanes_of_one_warp_take_a_spin_lock_in_turn():
    out = np.zeros(2, np.uint32)
    program = kernel(
        """TRY: atom.global.cas.b32 %r1, [%out], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra TRY;
        ld.volatile.global.u32 %r2, [%out+4]; add.u32 %r2, %r2, %lane; add.u32 %r2, %r2, 1;
        st.volatile.global.u32 [%out+4], %r2; membar.gl; st.volatile.global.u32 [%out], 0;"""
    )
    run(program, out, grid=2, block=64)
    assert out.tolist() == [0, 2 * 2 * sum(range(1, 33))]


@pytest.mark.parametrize("first", [0, 31])
@pytest.mark.parametrize("load", ["ld.volatile.shared", "ld.acquire.cta.shared", "ld.relaxed.gpu.shared"])
def test_a_lane_waits_for_another_lane_of_its_warp(first, load):
    """One lane sets the flag, the others spin, for either order of the branches in the text."""
    body = f"""setp.eq.u32 %p2, %tid, {first}; st.shared.u32 [flag], 0; bar.sync 0; mov.u32 %r2, 0;
        @%p2 bra SET;
        SPIN: {load}.u32 %r1, [flag]; add.u32 %r2, %r2, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;
        mov.u32 %r2, 1; bra DONE;
        SET: st.volatile.shared.u32 [flag], 5; mov.u32 %r1, 9;
        DONE: add.u32 %r1, %r1, %r2; st.global.u32 [%at], %r1;"""
    got = words(body, 32, declarations=".shared .u32 flag;")
    assert got.tolist() == [9 if t == first else 6 for t in range(32)]


def test_a_chain_of_lanes_each_waiting_for_its_neighbour():
    body = """mov.u32 %r5, chain; mad.lo.u32 %r6, %tid, 4, %r5; st.volatile.shared.u32 [%r6], 0; bar.sync 0;
        setp.eq.u32 %p1, %tid, 47; @%p1 bra FIRST;
        SPIN: ld.volatile.shared.u32 %r1, [%r6+4]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN; bra PASS;
        FIRST: mov.u32 %r1, 100;
        PASS: add.u32 %r1, %r1, 1; st.volatile.shared.u32 [%r6], %r1; st.global.u32 [%at], %r1;"""
    got = words(body, 48, block=48, declarations=".shared .u32 chain[64];")
    assert got.tolist() == [101 + 47 - t for t in range(48)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("setter", [0, 3])
def test_a_warp_waits_for_another_warp_of_its_block(seed, setter):
    body = f"""setp.eq.u32 %p3, %tid, 0; @%p3 st.volatile.shared.u32 [flag], 0; bar.sync 0;
        shr.u32 %r3, %tid, 5; setp.eq.u32 %p1, %r3, {setter}; @%p1 bra SET;
        SPIN: ld.volatile.shared.u32 %r1, [flag]; setp.ne.u32 %p2, %r1, 7; @%p2 bra SPIN; bra DONE;
        SET: st.volatile.shared.u32 [flag], 7; mov.u32 %r1, 1;
        DONE: st.global.u32 [%at], %r1;"""
    got = words(body, 128, block=128, seed=seed, declarations=".shared .u32 flag;")
    assert got.tolist() == [1 if t // 32 == setter else 7 for t in range(128)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("load", ["ld.volatile.global", "ld.acquire.gpu.global", "ld.acquire.gpu", "atom"])
@pytest.mark.parametrize("setter", [0, 7])
def test_blocks_wait_for_one_block(seed, load, setter):
    """With one host thread or two, for any order of blocks."""
    read = "atom.global.or.b32 %r1, [%a1], 0;" if load == "atom" else f"{load}.u32 %r1, [%a1];"
    program = kernel(
        f"""setp.eq.u32 %p1, %block, {setter}; @%p1 bra SET;
        SPIN: {read} setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN; bra DONE;
        SET: ld.global.u32 %r1, [%a1+4]; st.global.u32 [%a1+8], %r1; membar.gl;
        setp.eq.u32 %p3, %tid, 0; @%p3 st.release.gpu.global.u32 [%a1], 40; mov.u32 %r1, 1;
        DONE: ld.volatile.global.u32 %r2, [%a1+8]; add.u32 %r1, %r1, %r2; st.global.u32 [%at], %r1;""",
        2,
    )
    out, flag = np.zeros(8 * 33, np.uint32), np.array([0, 500, 0], np.uint32)
    run(program, out, flag, grid=8, block=33, seed=seed)
    assert out.tolist() == [501 if g // 33 == setter else 540 for g in range(8 * 33)]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_block_waits_for_the_one_after_it(seed):
    """All blocks but the last wait; they must all be resident."""
    program = kernel(
        """mov.u32 %r5, %nctaid.x; sub.u32 %r5, %r5, 1; mad.wide.u32 %d1, %block, 4, %a1;
        setp.eq.u32 %p1, %block, %r5; mov.u32 %r1, 1; @%p1 bra PASS;
        SPIN: ld.volatile.global.u32 %r1, [%d1+4]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN;
        PASS: add.u32 %r1, %r1, 1; bar.sync 0; st.volatile.global.u32 [%d1], %r1; st.global.u32 [%at], %r1;""",
        2,
    )
    out, flags = np.zeros(40 * 2, np.uint32), np.zeros(41, np.uint32)
    run(program, out, flags, grid=40, block=2, seed=seed)
    assert out.reshape(40, 2)[:, 0].tolist() == [2 + 39 - b for b in range(40)]
    assert flags[:40].tolist() == [2 + 39 - b for b in range(40)]


def test_a_grid_wide_barrier_by_an_atomic_counter():
    program = kernel(
        """st.global.u32 [%at], %gid; membar.gl; bar.sync 0;
        setp.ne.u32 %p1, %tid, 0; @%p1 bra WAIT; red.global.add.u32 [%a1], 1;
        SPIN: ld.volatile.global.u32 %r1, [%a1]; setp.lt.u32 %p2, %r1, 9; @%p2 bra SPIN;
        WAIT: bar.sync 0;
        sub.u32 %r2, 1, 0; mov.u32 %r3, %nctaid.x; mul.lo.u32 %r3, %r3, %threads; sub.u32 %r3, %r3, 1;
        sub.u32 %r3, %r3, %gid; mad.wide.u32 %d1, %r3, 4, %out; ld.volatile.global.u32 %r4, [%d1];
        mad.wide.u32 %d2, %gid, 4, %a2; st.global.u32 [%d2], %r4;""",
        3,
    )
    count, result = np.zeros(1, np.uint32), np.zeros(9 * 50, np.uint32)
    run(program, np.zeros(9 * 50, np.uint32), count, result, grid=9, block=50)
    assert result.tolist() == list(range(9 * 50))[::-1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wait", ["atom.global.or.b32 %r1, [%a1], 0;", "ld.volatile.global.u32 %r1, [%a1];"])
def test_blocks_wait_for_later_ones_between_their_own_barriers(seed, wait):
    """Each trip of the loop that waits has barriers, which are no progress."""
    program = kernel(
        f"""setp.ne.u32 %p1, %tid, 0; @%p1 bra WAIT; red.global.add.u32 [%a1], 1;
        WAIT: @%p1 bra MEET; {wait} st.volatile.shared.u32 [seen], %r1;
        MEET: bar.sync 0; ld.volatile.shared.u32 %r1, [seen]; bar.sync 0;
        setp.lt.u32 %p2, %r1, 12; @%p2 bra WAIT; st.global.u32 [%at], %r1;""",
        2,
        declarations=".shared .u32 seen;",
    )
    out = np.zeros(12 * 64, np.uint32)
    run(program, out, np.zeros(1, np.uint32), grid=12, block=64, seed=seed)
    assert (out == 12).all()
