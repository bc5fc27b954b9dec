"""Barriers by number and count, in straight, divergent and looping code."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run, words

from tilewright.errors import DeadlockError
from tilewright.simt import Limits

SEEDS = [None, 0, 1, 5]
SHARED = ".shared .align 4 .u32 s[1024];"
AT = "mov.u32 %r90, s; mad.lo.u32 %r91, %tid, 4, %r90;"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("barrier", ["bar.sync 0", "bar.sync 15", "barrier.sync 3", "barrier.cta.sync.aligned 1, 96"])
def test_writes_before_a_barrier_are_visible_after_it(seed, barrier):
    got = words(
        f"""{AT} mul.lo.u32 %r1, %tid, 7; st.shared.u32 [%r91], %r1; {barrier};
        sub.u32 %r2, 95, %tid; mad.lo.u32 %r2, %r2, 4, %r90; ld.shared.u32 %r3, [%r2]; st.global.u32 [%at], %r3;""",
        96,
        block=96,
        seed=seed,
        declarations=SHARED,
    )
    assert got.tolist() == [7 * (95 - t) for t in range(96)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("threads", [64, 100, 1024])
def test_tree_reduction_in_a_loop_of_barriers(seed, threads):
    got = words(
        f"""{AT} mul.lo.u32 %r1, %tid, %tid; st.shared.u32 [%r91], %r1; bar.sync 0; mov.u32 %r2, 512;
        LOOP: add.u32 %r3, %tid, %r2; setp.ge.u32 %p1, %tid, %r2; @%p1 bra NEXT;
        setp.ge.u32 %p2, %r3, %threads; @%p2 bra NEXT;
        mad.lo.u32 %r4, %r3, 4, %r90; ld.shared.u32 %r5, [%r4]; ld.shared.u32 %r6, [%r91];
        add.u32 %r6, %r6, %r5; st.shared.u32 [%r91], %r6;
        NEXT: bar.sync 0; shr.u32 %r2, %r2, 1; setp.ne.u32 %p3, %r2, 0; @%p3 bra LOOP;
        ld.shared.u32 %r7, [s]; st.global.u32 [%at], %r7;""",
        threads * 2,
        grid=2,
        block=threads,
        seed=seed,
        declarations=SHARED,
    )
    assert got.tolist() == [sum(t * t for t in range(threads))] * (2 * threads)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_producer_arrives_and_a_consumer_waits(seed):
    """Two barriers of 64 threads pass a buffer back and forth between two warps, eight times."""
    got = words(
        f"""{AT} mov.u32 %r1, 0; mov.u32 %r9, 0; setp.ge.u32 %p1, %tid, 32; @%p1 bra CONSUME;
        PRODUCE: mad.lo.u32 %r2, %r1, 100, %tid; st.shared.u32 [%r91], %r2; bar.arrive 1, 64;
        bar.sync 2, 64; add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 8; @%p2 bra PRODUCE; bra DONE;
        CONSUME: bar.sync 1, 64; ld.shared.u32 %r3, [%r91+-128]; add.u32 %r9, %r9, %r3; bar.arrive 2, 64;
        add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 8; @%p2 bra CONSUME;
        DONE: st.global.u32 [%at], %r9;""",
        64,
        block=64,
        seed=seed,
        declarations=SHARED,
    )
    assert got.tolist() == [0] * 32 + [100 * sum(range(8)) + 8 * t for t in range(32)]


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_of_warps_with_their_own_barriers(seed):
    """Warps 0 and 1 meet at barrier 1 three times while warps 2 and 3 meet at barrier 2 once."""
    got = words(
        f"""{AT} st.shared.u32 [%r91], %tid; setp.ge.u32 %p1, %tid, 64; @%p1 bra SECOND; mov.u32 %r1, 0;
        LOOP: xor.b32 %r2, %tid, 32; mad.lo.u32 %r2, %r2, 4, %r90; bar.sync 1, 64; ld.shared.u32 %r3, [%r2];
        bar.sync 1, 64; add.u32 %r3, %r3, 1; st.shared.u32 [%r91], %r3; add.u32 %r1, %r1, 1;
        setp.lt.u32 %p2, %r1, 3; @%p2 bra LOOP; bra DONE;
        SECOND: bar.sync 2, 64; xor.b32 %r2, %tid, 32; mad.lo.u32 %r2, %r2, 4, %r90; ld.shared.u32 %r3, [%r2];
        DONE: st.global.u32 [%at], %r3;""",
        128,
        block=128,
        seed=seed,
        declarations=SHARED,
    )
    assert got.tolist() == [(t ^ 32) + 3 for t in range(64)] + [t ^ 32 for t in range(64, 128)]


@pytest.mark.parametrize("threads", [32, 70, 256])
@pytest.mark.parametrize("limit", [0, 1, 33, 1000])
def test_reductions_over_a_barrier(threads, limit):
    got = words(
        f"""setp.lt.u32 %p1, %tid, {limit}; bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p2, 0, %p1;
        bar.red.or.pred %p3, 1, %p1; bar.red.popc.u32 %r4, 0, !%p1; selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 1, 0, %p3;
        mad.lo.u32 %r1, %r1, 10, %r2; mad.lo.u32 %r1, %r1, 10, %r3; mad.lo.u32 %r1, %r4, 100000, %r1;
        st.global.u32 [%at], %r1;""",
        threads,
        block=threads,
    )
    count = min(limit, threads)
    wanted = count * 100 + 10 * (count == threads) + (count > 0) + 100000 * (threads - count)
    assert got.tolist() == [wanted] * threads


def test_a_reduction_in_a_loop_decides_when_it_ends():
    got = words(
        """mov.u32 %r1, 0; and.b32 %r2, %tid, 15;
        LOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r2; bar.red.or.pred %p2, 0, %p1; @%p2 bra LOOP;
        st.global.u32 [%at], %r1;""",
        64,
        block=64,
    )
    assert got.tolist() == [15] * 64


@pytest.mark.parametrize("seed", SEEDS)
def test_threads_that_exited_are_not_waited_for(seed):
    got = words(
        f"""{AT} setp.lt.u32 %p1, %tid, 40; @%p1 exit; st.shared.u32 [%r91], %tid; bar.sync 0;
        setp.ge.u32 %p2, %tid, 96; @%p2 exit; bar.sync 0;
        sub.u32 %r2, 167, %tid; mad.lo.u32 %r2, %r2, 4, %r90; ld.shared.u32 %r3, [%r2]; st.global.u32 [%at], %r3;""",
        128,
        block=128,
        seed=seed,
        fill=9,
        declarations=SHARED,
    )
    assert got.tolist() == [9] * 40 + [167 - t for t in range(40, 96)] + [9] * 32


@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_reached_from_two_arms_of_a_branch(seed):
    """Threads of a warp arrive at two places of the text; they wait together, as a barrier is its number."""
    got = words(
        f"""{AT} st.shared.u32 [%r91], %tid; and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN;
        barrier.sync 0; mov.u32 %r5, 1000; bra READ;
        EVEN: mov.u32 %r5, 2000; barrier.sync 0;
        READ: sub.u32 %r2, 63, %tid; mad.lo.u32 %r2, %r2, 4, %r90; ld.shared.u32 %r3, [%r2]; add.u32 %r3, %r3, %r5;
        st.global.u32 [%at], %r3;""",
        64,
        block=64,
        seed=seed,
        declarations=SHARED,
    )
    assert got.tolist() == [63 - t + (1000 if t & 1 else 2000) for t in range(64)]


def test_a_divergent_loop_of_barriers_with_values_carried_across():
    """Each lane waits as many times as its number; lanes that have left wait at the end, at another barrier."""
    got = words(
        """and.b32 %r1, %tid, 3; mov.u32 %r2, 0; mov.u32 %r3, 17; mul.lo.u32 %r9, %tid, 11;
        LOOP: setp.ge.u32 %p1, %r2, %r1; @%p1 bra OUT; mad.lo.u32 %r3, %r3, 5, %r2; add.u32 %r2, %r2, 1;
        bar.warp.sync 0xffffffff; bra LOOP;
        OUT: bar.sync 1; add.u32 %r3, %r3, %r9; st.global.u32 [%at], %r3;""",
        64,
        block=64,
    )

    def one(t):
        value = 17
        for i in range(t & 3):
            value = value * 5 + i
        return value + 11 * t

    assert got.tolist() == [one(t) for t in range(64)]


def test_all_kinds_of_registers_survive_a_barrier():
    got = words(
        """setp.gt.u32 %p1, %lane, 7; setp.eq.u32 %p2, %block, 1; cvt.u16.u32 %h1, %tid; cvt.rn.f32.u32 %f1, %tid;
        cvt.rn.f64.u32 %e1, %tid; cvt.u64.u32 %d5, %tid; mov.u32 %r1, 12345; mul.lo.u32 %r2, %block, 3;
        bar.sync 0;
        selp.u32 %r3, 1, 0, %p1; selp.u32 %r4, 2, 0, %p2; add.u32 %r3, %r3, %r4; cvt.u32.u16 %r5, %h1;
        cvt.rni.u32.f32 %r6, %f1; cvt.rni.u32.f64 %r7, %e1; cvt.u32.u64 %r8, %d5;
        add.u32 %r5, %r5, %r6; add.u32 %r7, %r7, %r8; add.u32 %r5, %r5, %r7; mad.lo.u32 %r3, %r3, 1000000, %r1;
        mad.lo.u32 %r3, %r5, 10, %r3; add.u32 %r3, %r3, %r2; st.global.u32 [%at], %r3;""",
        80,
        grid=2,
        block=40,
    )
    wanted = [(int(t % 32 > 7) + 2 * b) * 1000000 + 12345 + 40 * t + 3 * b for b in range(2) for t in range(40)]
    assert got.tolist() == wanted


DEADLOCKS = {
    "a count that is never complete": (
        "bar.sync 1, 96;",
        r"barrier 1 has 64 of 96 threads \(warps 0, 1; first at PTX line LINE\)",
    ),
    "warps at different barriers": (
        "setp.lt.u32 %p1, %tid, 32; @%p1 bra A; bar.sync 1; bra B; A: bar.sync 2; B:",
        r"barrier 1 has 32 of 64 threads \(warp 1; .*; barrier 2 has 32 of 64 threads \(warp 0; ",
    ),
    "a count that takes a warp that has exited": (
        "setp.lt.u32 %p1, %tid, 32; @%p1 exit; bar.sync 3, 64;",
        r"barrier 3 has 32 of 64 threads \(warp 1; ",
    ),
    "one arrival too many": (
        "setp.lt.u32 %p1, %tid, 32; @%p1 bra A; bar.sync 4, 64; bra B; A: bar.arrive 4, 64; bar.sync 4, 64; B:",
        r"barrier 4 has 32 of 64 threads \(warp [01]; ",
    ),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("body", "waits"), DEADLOCKS.values(), ids=list(DEADLOCKS))
def test_a_deadlock_names_the_block_and_the_waiting_warps(body, waits, seed):
    program = kernel("setp.ne.u32 %p9, %block, 2; @%p9 exit;" + body + " st.global.u32 [%at], 1;")
    lines = program.ptx.splitlines()
    line = next(i for i, text in enumerate(lines, 1) if body in text)
    waits = waits.replace("LINE", str(line))
    out = np.zeros(4 * 64, np.uint32)
    with pytest.raises(DeadlockError, match=r"k: block \(2, 0, 0\) cannot go on: .*" + waits) as raised:
        run(program, out, grid=4, block=64, limits=Limits(seconds=20), seed=seed)
    assert raised.value.block == (2, 0, 0)
    assert not out.any()


def test_the_clean_twin_of_the_deadlocks_ends():
    got = words("setp.lt.u32 %p1, %tid, 16; @%p1 bra HALF; bar.sync 0; bra DONE; HALF: bar.sync 0; DONE: "
                "bar.sync 1, 64; st.global.u32 [%at], 1;", 64, block=64)  # fmt: skip
    assert got.tolist() == [1] * 64
