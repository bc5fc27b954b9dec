"""Control flow: divergence and reconvergence, against each thread executed alone."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import extents, kernel, run, words

BLOCKS = [(1, 1, 1), (7, 1, 1), (32, 1, 1), (33, 1, 1), (16, 16, 1), (8, 8, 1), (10, 10, 1), (3, 5, 7), (1024, 1, 1)]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_divergent_if_else_for_every_block_shape(block):
    threads = int(np.prod(block))
    got = words(
        """and.b32 %r1, %tid, 3; setp.eq.u32 %p1, %r1, 1; @%p1 bra ONE;
        mad.lo.u32 %r2, %tid, 5, 7; bra JOIN;
        ONE: sub.u32 %r2, 1000000, %tid;
        JOIN: add.u32 %r2, %r2, %lane; st.global.u32 [%at], %r2;""",
        threads,
        block=block,
    )
    wanted = [(1000000 - t if t & 3 == 1 else 5 * t + 7) + t % 32 for t in range(threads)]
    assert got.tolist() == wanted


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_thread_indices_of_every_block_shape(block):
    x, y, z = block
    threads = x * y * z
    got = words(
        """mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
        shl.b32 %r2, %r2, 10; shl.b32 %r3, %r3, 20; or.b32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;
        st.global.u32 [%at], %r1;""",
        threads,
        block=block,
    )
    assert got.tolist() == [t % x | t // x % y << 10 | t // (x * y) << 20 for t in range(threads)]


@pytest.mark.parametrize("grid", [5, (3, 4), (2, 3, 4), (1, 1, 6)], ids=str)
def test_block_indices_of_every_grid(grid):
    gx, gy, gz = extents(grid)
    blocks = gx * gy * gz
    got = words(
        """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;
        mad.lo.u32 %r1, %r2, 100, %r1; mad.lo.u32 %r1, %r3, 10000, %r1;
        mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y; mov.u32 %r6, %nctaid.z;
        mad.lo.u32 %r4, %r5, 10, %r4; mad.lo.u32 %r4, %r6, 100, %r4; mad.lo.u32 %r1, %r4, 1000000, %r1;
        st.global.u32 [%at], %r1;""",
        blocks * 8,
        grid=grid,
        block=8,
    )
    of_block = [b % gx + 100 * (b // gx % gy) + 10000 * (b // (gx * gy)) for b in range(blocks)]
    assert got.tolist() == [v + 1000000 * (gx + 10 * gy + 100 * gz) for v in of_block for _ in range(8)]


def test_nested_loops_with_trip_counts_of_each_lane():
    got = words(
        """mov.u32 %r1, 0; mov.u32 %r2, 0; and.b32 %r3, %tid, 7;
        OUTER: setp.ge.u32 %p1, %r2, %r3; @%p1 bra DONE;
          mov.u32 %r4, 0; add.u32 %r5, %r2, %lane; rem.u32 %r5, %r5, 5;
          INNER: setp.ge.u32 %p2, %r4, %r5; @%p2 bra NEXT;
            mad.lo.u32 %r1, %r1, 3, %r4; add.u32 %r4, %r4, 1; bra INNER;
          NEXT: add.u32 %r1, %r1, %r2; add.u32 %r2, %r2, 1; bra OUTER;
        DONE: st.global.u32 [%at], %r1;""",
        70,
        block=70,
    )

    def one(t):
        total = 0
        for i in range(t & 7):
            for j in range((i + t % 32) % 5):
                total = total * 3 + j
            total += i
        return total & 0xFFFFFFFF

    assert got.tolist() == [one(t) for t in range(70)]


def test_a_loop_of_each_lane_until_its_own_value_is_one():
    got = words(
        """add.u32 %r1, %gid, 1; mov.u32 %r2, 0;
        LOOP: setp.eq.u32 %p1, %r1, 1; @%p1 bra DONE;
        and.b32 %r3, %r1, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra ODD;
        shr.u32 %r1, %r1, 1; bra STEP;
        ODD: mad.lo.u32 %r1, %r1, 3, 1;
        STEP: add.u32 %r2, %r2, 1; bra LOOP;
        DONE: st.global.u32 [%at], %r2;""",
        200,
        grid=4,
        block=50,
    )

    def steps(n):
        count = 0
        while n != 1:
            n = n * 3 + 1 if n % 2 else n // 2
            count += 1
        return count

    assert got.tolist() == [steps(g + 1) for g in range(200)]


def test_a_loop_counter_read_after_lanes_left_the_loop_at_different_times():
    """The counter is the same in all lanes that run, yet every lane keeps the value with which it left."""
    got = words(
        """mov.u32 %r1, 0; mov.u32 %r4, 100;
        LOOP: add.u32 %r1, %r1, 1; add.u32 %r4, %r4, 3; and.b32 %r2, %lane, 15; setp.le.u32 %p1, %r1, %r2;
        @%p1 bra LOOP;
        add.u32 %r3, %r4, %r1; st.global.u32 [%at], %r3;""",
        64,
        block=64,
    )
    assert got.tolist() == [100 + 4 * ((t & 15) + 1) for t in range(64)]


def test_a_uniform_value_of_the_last_round_survives_a_divergent_loop():
    got = words(
        """mov.u32 %r1, 0; mov.u32 %r5, 77; mov.u32 %r7, 9; mul.lo.u32 %r8, %r7, 4;
        LOOP: mov.u32 %r6, %r5; mul.lo.u32 %r5, %r5, 3; add.u32 %r1, %r1, 1;
        setp.lt.u32 %p1, %r1, %tid; @%p1 bra LOOP;
        xor.b32 %r5, %r5, %r6; add.u32 %r5, %r5, %r8; st.global.u32 [%at], %r5;""",
        40,
        block=40,
    )

    def one(t):
        value, i = 77, 0
        while True:
            before, value, i = value, value * 3 & 0xFFFFFFFF, i + 1
            if i >= t:
                return (value ^ before) + 36 & 0xFFFFFFFF

    assert got.tolist() == [one(t) for t in range(40)]


def test_predicates_carried_around_a_loop():
    got = words(
        """setp.lt.u32 %p1, %lane, 11; setp.ne.u32 %p2, 0, 0; mov.u32 %r1, 0; mov.u32 %r2, 0;
        LOOP: @%p1 add.u32 %r1, %r1, 1; @!%p1 add.u32 %r1, %r1, 100; @%p2 add.u32 %r1, %r1, 10000;
        and.pred %p3, %p1, %p2; not.pred %p2, %p1; or.pred %p1, %p3, %p2; add.u32 %r2, %r2, 1;
        setp.lt.u32 %p4, %r2, 9; @%p4 bra LOOP;
        selp.u32 %r3, 1000000, 0, %p1; add.u32 %r1, %r1, %r3; st.global.u32 [%at], %r1;""",
        32,
    )

    def one(t):
        p, q, total = t < 11, False, 0
        for _ in range(9):
            total += (1 if p else 100) + 10000 * q
            p, q = (p and q) or not p, not p
        return total + 1000000 * p

    assert got.tolist() == [one(t) for t in range(32)]


def test_registers_written_in_both_branches_of_a_branch_some_lanes_take():
    got = words(
        """mov.u32 %r1, 5; mov.u32 %r2, %tid; setp.gt.u32 %p1, %lane, 20; @%p1 bra HIGH;
        mov.u32 %r1, 6; add.u32 %r2, %r2, %r1; mov.u32 %r3, 1; bra JOIN;
        HIGH: add.u32 %r2, %r2, %r1; mov.u32 %r1, 7; mov.u32 %r3, 2;
        JOIN: mad.lo.u32 %r1, %r1, 1000, %r2; mad.lo.u32 %r1, %r3, 1000000, %r1; st.global.u32 [%at], %r1;""",
        50,
        block=50,
    )
    wanted = [2007005 + t if t % 32 > 20 else 1006006 + t for t in range(50)]
    assert got.tolist() == wanted


def test_a_register_written_under_a_guard_keeps_its_old_value_elsewhere():
    got = words(
        """mov.u32 %r1, 40; setp.eq.u32 %p1, %lane, 3; @%p1 mov.u32 %r1, 41; @!%p1 add.u32 %r1, %r1, %tid;
        setp.eq.u32 %p2, %block, 0; @%p2 mov.u32 %r2, 500; @!%p2 mov.u32 %r2, 900; add.u32 %r1, %r1, %r2;
        st.global.u32 [%at], %r1;""",
        64,
        grid=2,
    )
    wanted = [(41 if t == 3 else 40 + t) + (500 if b == 0 else 900) for b in range(2) for t in range(32)]
    assert got.tolist() == wanted


def test_irreducible_graph():
    """A loop that is entered at two places, by different lanes of a warp."""
    got = words(
        """mov.u32 %r1, %tid; mov.u32 %r2, 0; and.b32 %r3, %tid, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra B;
        A: add.u32 %r2, %r2, 1; mad.lo.u32 %r1, %r1, 3, 1; setp.gt.u32 %p2, %r1, 5000; @%p2 bra DONE;
        B: add.u32 %r2, %r2, 100; add.u32 %r1, %r1, 7; setp.lt.u32 %p3, %r1, 4000; @%p3 bra A;
        DONE: mad.lo.u32 %r1, %r1, 10000, %r2; st.global.u32 [%at], %r1;""",
        96,
        block=96,
    )

    def one(t):
        value, count, at_a = t, 0, t % 2 == 0
        while True:
            if at_a:
                count, value = count + 1, value * 3 + 1
                if value > 5000:
                    break
            count, value, at_a = count + 100, value + 7, True
            if value >= 4000:
                break
        return value * 10000 + count & 0xFFFFFFFF

    assert got.tolist() == [one(t) for t in range(96)]


@pytest.mark.parametrize("index", ["and.b32 %r1, %block, 3;", "and.b32 %r1, %lane, 3;"], ids=["uniform", "divergent"])
def test_indexed_branch(index):
    got = words(
        f"""{index} LIST: .branchtargets T0, T1, T2, T1;
        mov.u32 %r2, 0;
        brx.idx %r1, LIST;
        T0: add.u32 %r2, %r2, 1; bra DONE;
        T1: add.u32 %r2, %r2, 20; setp.eq.u32 %p1, %r1, 3; @%p1 bra T0; bra DONE;
        T2: add.u32 %r2, %r2, %tid;
        DONE: st.global.u32 [%at], %r2;""",
        6 * 40,
        grid=6,
        block=40,
    )
    by_lane = "lane" in index
    wanted = []
    for b in range(6):
        for t in range(40):
            wanted.append([1, 20, t, 21][(t % 32 if by_lane else b) & 3])
    assert got.tolist() == wanted


def test_indexed_branch_in_a_loop_with_another_index_each_round():
    got = words(
        """mov.u32 %r2, 0; mov.u32 %r3, 0;
        LIST: .branchtargets T0, T1, T2;
        LOOP: add.u32 %r1, %r3, %lane; rem.u32 %r1, %r1, 3; brx.idx %r1, LIST;
        T0: mad.lo.u32 %r2, %r2, 3, 1; bra NEXT;
        T1: xor.b32 %r2, %r2, 0x55; bra NEXT;
        T2: add.u32 %r2, %r2, %r3;
        NEXT: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 10; @%p1 bra LOOP;
        st.global.u32 [%at], %r2;""",
        32,
    )

    def one(t):
        value = 0
        for i in range(10):
            value = [value * 3 + 1, value ^ 0x55, value + i][(i + t) % 3]
        return value

    assert got.tolist() == [one(t) for t in range(32)]


def test_lanes_that_exit_early_write_nothing_more():
    got = words(
        """st.global.u32 [%at], 1; setp.lt.u32 %p1, %lane, 9; @%p1 exit; st.global.u32 [%at], 2;
        setp.gt.u32 %p2, %lane, 25; @%p2 ret; mov.u32 %r1, %lane;
        LOOP: setp.eq.u32 %p3, %r1, 20; @%p3 exit; add.u32 %r1, %r1, 1; st.global.u32 [%at], %r1;
        setp.lt.u32 %p4, %r1, 28; @%p4 bra LOOP; st.global.u32 [%at], 3;""",
        40,
        block=40,
    )

    def one(lane):
        if lane < 9:
            return 1
        if lane > 25:
            return 2
        if lane == 20:
            return 2
        return 20 if lane < 20 else 3

    assert got.tolist() == [one(t % 32) for t in range(40)]


def test_a_guarded_exit_that_all_lanes_take():
    got = words("setp.ge.u32 %p1, %tid, 0; @%p1 exit; st.global.u32 [%at], 2;", 32, fill=9)
    assert got.tolist() == [9] * 32


def test_several_guarded_accesses_at_one_address():
    """One check serves accesses under one guard, wherever the guard lets lanes through."""
    out = np.zeros(64, np.uint32)
    data = np.arange(1, 65, dtype=np.uint32)
    program = kernel(
        """mad.wide.u32 %d1, %tid, 8, %a1; mad.wide.u32 %d2, %tid, 8, %out; mov.u32 %r1, 7; mov.u32 %r2, 8;
        setp.gt.u32 %p1, %tid, 12; @%p1 ld.global.u32 %r1, [%d1]; @%p1 ld.global.u32 %r2, [%d1+4];
        @!%p1 ld.global.u32 %r3, [%d1+4]; @!%p1 add.u32 %r2, %r3, 100;
        @%p1 st.global.u32 [%d2], %r1; st.global.u32 [%d2+4], %r2;""",
        2,
    )
    run(program, out, data)
    wanted = [(data[2 * t], data[2 * t + 1]) if t > 12 else (0, data[2 * t + 1] + 100) for t in range(32)]
    assert out.reshape(32, 2).tolist() == [list(map(int, pair)) for pair in wanted]


@pytest.mark.parametrize("condition", ["%block, 1", "%lane, 5"], ids=["uniform", "divergent"])
def test_guards_on_every_kind_of_instruction(condition):
    data = np.arange(1000, 1064, dtype=np.uint32)
    sums = np.zeros(2, np.uint32)
    out = np.zeros(64, np.uint32)
    program = kernel(
        f"""mad.wide.u32 %d1, %gid, 4, %a1; mov.u32 %r1, 3; mov.u32 %r2, 4; mov.u32 %r9, 0; mov.u32 %r4, 0;
        setp.ge.u32 %p1, {condition};
        @%p1 ld.global.u32 %r1, [%d1];
        @%p1 add.cc.u32 %r3, 0xffffffff, 1; @%p1 addc.u32 %r2, %r2, 10;
        @%p1 atom.global.add.u32 %r4, [%a2], 1;
        @!%p1 red.global.add.u32 [%a2+4], 2;
        @%p1 mov.u32 %r5, %lane; @%p1 cvta.global.u64 %d2, %d1; @%p1 ld.u32 %r6, [%d2]; @!%p1 mov.u32 %r6, 0;
        @%p1 activemask.b32 %r7; @!%p1 mov.u32 %r7, 0; popc.b32 %r7, %r7;
        @%p1 bar.sync 0; @!%p1 bar.sync 0;
        @%p1 membar.gl;
        add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r6; mad.lo.u32 %r1, %r7, 10000, %r1; st.global.u32 [%at], %r1;
        @%p1 st.global.u32 [%d1], %r5;""",
        3,
    )
    run(program, out, data, sums, grid=2)
    taken = [(b >= 1 if "block" in condition else t >= 5) for b in range(2) for t in range(32)]
    per_warp = [sum(taken[:32]), sum(taken[32:])]
    wanted = [2 * (1000 + g) + 15 + 10000 * per_warp[g // 32] if taken[g] else 7 for g in range(64)]
    assert out.tolist() == wanted
    assert sums.tolist() == [sum(taken), 2 * (64 - sum(taken))]
    assert data.tolist() == [g % 32 if taken[g] else 1000 + g for g in range(64)]


def test_a_signed_comparison_with_a_literal_above_the_signed_range():
    """0xFFFFFFF0 is -16 in a signed comparison, also if the comparison folds to a constant."""
    got = words(
        """mov.u32 %r1, 1; setp.le.s32 %p1, %r1, 0xFFFFFFF0; selp.u32 %r2, 10, 20, %p1;
        mov.u32 %r3, -16; setp.eq.s32 %p2, %r3, 4294967280; selp.u32 %r4, 1, 2, %p2;
        setp.lt.u32 %p3, %tid, 0xFFFFFFF0; selp.u32 %r5, 100, 200, %p3; add.u32 %r2, %r2, %r4; add.u32 %r2, %r2, %r5;
        st.global.u32 [%at], %r2;""",
        32,
    )
    assert got.tolist() == [121] * 32


@pytest.mark.parametrize("block", [32, 64])
@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("@%p1 bar.sync 0; add.u32 %r9, %r9, 1; @!%p1 bar.sync 0;", lambda lane: 1),
        (
            "L: @%p1 bar.sync 0; add.u32 %r9, %r9, 1; @!%p1 bar.sync 0; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 4; "
            "@%p2 bra L;",
            lambda lane: 4,
        ),
        (
            "L: setp.lt.u32 %p3, %lane, %r3; @%p3 bra A; bar.sync 0; add.u32 %r9, %r9, 1; A: add.u32 %r3, %r3, 1; "
            "setp.lt.u32 %p2, %r3, 40; @%p2 bra L;",
            lambda lane: lane + 1,
        ),
    ],
    ids=["twice", "loop", "fewer each time"],
)
def test_code_after_a_barrier_runs_while_other_lanes_wait(block, body, wanted):
    """Lanes from the barrier join others of the warp that already run there; each lane counts separately."""
    text = f"mov.u32 %r9, 0; mov.u32 %r3, 0; setp.ge.u32 %p1, %lane, 5; {body} st.global.u32 [%at], %r9;"
    assert words(text, block, block=block).tolist() == [wanted(t % 32) for t in range(block)]
