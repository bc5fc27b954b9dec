"""Rules of barriers: a kernel breaks each rule once, and its twin keeps it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ptx_kernels import kernel, run, words

from tilewright import simt
from tilewright.errors import DeadlockError, KernelError, PtxError

SEEDS = [None, 0, 1, 2, 3]
THREADS = 96


def fault(error: type[KernelError], message: str, body: str, seed: int | None = None) -> KernelError:
    """Run a kernel of three warps that breaks a rule; it names the kernel, the line, and this message."""
    with pytest.raises(error, match=re.escape(message)) as raised:
        words(body + " st.global.u32 [%at], 1;", THREADS, block=THREADS, seed=seed)
    found = raised.value
    assert found.kernel == "k"
    assert re.fullmatch(r"PTX line \d+", found.line)
    assert found.line in str(found)
    assert found.block == (0, 0, 0)
    return found


def clean(body: str, seed: int | None = None) -> None:
    """The kernel's twin ends."""
    assert words(body + " st.global.u32 [%at], 1;", THREADS, block=THREADS, seed=seed).tolist() == [1] * THREADS


# -- numbers and counts ---------------------------------------------------------------------------------------------

FORMS = {
    "sync": "bar.sync {id}, {count};",
    "barrier": "barrier.cta.sync {id}, {count};",
    "arrive": "barrier.arrive {id}, {count};",
    "aligned arrive": "bar.arrive {id}, {count};",
    "popc": "setp.lt.u32 %p1, %tid, 5; bar.red.popc.u32 %r9, {id}, {count}, %p1;",
    "and": "setp.lt.u32 %p1, %tid, 5; barrier.red.and.pred %p2, {id}, {count}, !%p1;",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
@pytest.mark.parametrize(
    ("identity", "count", "rule"),
    [*((one, "96", f"the barrier of '{{name}}' must be 0 to 15 (got {one})") for one in ("16", "-1"))]
    + [
        ("3", count, f"the threads of '{{name}}' must be a positive multiple of 32 (got {count})")
        for count in ("48", "0", "-32")
    ],
)
def test_literals_are_checked_before_anything_runs(form: str, identity: str, count: str, rule: str) -> None:
    text = form.format(id=identity, count=count)
    name = re.search(r"(bar\S+) ", text)[1]
    with pytest.raises(PtxError, match=r"\S+:\d+: " + re.escape(rule.format(name=name))):
        words(text, THREADS, block=THREADS)
    clean(form.format(id="15", count="96"))


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize(
    ("identity", "count", "rule"),
    [
        (16, 96, "the barrier must be 0 to 15 (got 16)"),
        (33, 96, "the barrier must be 0 to 15 (got 33)"),
        (0xFFFFFFFF, 96, "the barrier must be 0 to 15 (got 4294967295)"),
        (3, 0, "the threads must be a positive multiple of 32 (got 0)"),
        (3, 33, "the threads must be a positive multiple of 32 (got 33)"),
        (3, 16, "the threads must be a positive multiple of 32 (got 16)"),
    ],
)
def test_registers_are_checked_when_a_warp_arrives(
    form: str, uniform: bool, identity: int, count: int, rule: str
) -> None:
    """Values come from memory, the same for all lanes, or loaded by each lane."""
    index = "%block" if uniform else "%tid"
    body = (
        f"mul.wide.u32 %d1, {index}, 8; add.u64 %d1, %d1, %a1; ld.global.u32 %r1, [%d1]; ld.global.u32 %r2, [%d1+4];"
        + form.format(id="%r1", count="%r2")
        + "st.global.u32 [%at], 1;"
    )
    program = kernel(body, 2)
    out = np.zeros(THREADS, np.uint32)
    name = re.search(r"(bar\S+) ", form)[1]
    with pytest.raises(KernelError, match=re.escape(rule)) as raised:
        run(program, out, np.array([[identity, count]] * THREADS, np.uint32), block=THREADS)
    assert re.search(rf"`{re.escape(name)}` in block .*, thread \(\d+, 0, 0\), at PTX line \d+", str(raised.value))
    assert not out.any()
    run(program, out, np.array([[15, 96]] * THREADS, np.uint32), block=THREADS)
    assert out.tolist() == [1] * THREADS


# -- who takes part -------------------------------------------------------------------------------------------------

PARTS = "shr.u32 %r7, %tid, 5; setp.eq.u32 %p1, %r7, 1; @%p1 bra ONE; {rest} bra DONE; ONE: {one} DONE:"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("one", "rest", "names"),
    [
        ("bar.sync 1, 64;", "bar.sync 1, 96;", ("64", "96")),
        ("bar.arrive 1, 64;", "bar.sync 1, 96;", ("64", "96")),
        ("bar.sync 1, 128;", "bar.sync 1;", ("128", "all 96")),
        ("bar.red.popc.u32 %r1, 1, 64, %p1;", "bar.red.or.pred %p2, 1, 96, %p1;", ("64", "96")),
    ],
)
def test_participants_must_name_one_count(one: str, rest: str, names: tuple[str, str], seed: int | None) -> None:
    text = PARTS.format(one=one, rest=rest)
    with pytest.raises(KernelError, match="must give the same thread count") as raised:
        words(text + " st.global.u32 [%at], 1;", THREADS, block=THREADS, seed=seed)
    got, others = re.search(r"got (.+) where threads that arrived gave (.+)\);", str(raised.value)).groups()
    assert {got, others} == set(names)
    clean(re.sub(r"1, (64|128)", "1, 96", text), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_threads_and_their_number_are_the_same_count(seed: int | None) -> None:
    clean(PARTS.format(one="bar.sync 1, 96;", rest="bar.sync 1;"), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_a_count_exited_warps_are_not_waited_for(seed: int | None) -> None:
    body = "setp.ge.u32 %p2, %tid, 64; @%p2 exit; " + PARTS.format(one="bar.sync 1, 96;", rest="{rest}")
    text = body + " st.global.u32 [%at], 1;"
    assert words(text.format(rest="bar.sync 1;"), 96, block=96, seed=seed).tolist() == [1] * 64 + [0] * 32
    with pytest.raises(DeadlockError, match="barrier 1 has 64 of 96 threads"):
        words(text.format(rest="bar.sync 1, 96;"), 96, block=96, seed=seed)


def test_arrivals_without_a_waiter_end_with_their_block() -> None:
    """The first block leaves 64 of 96 threads at a barrier; the others find it empty."""
    body = """setp.ne.u32 %p1, %block, 0; @%p1 bra OTHERS; bar.arrive 5, 96; bra DONE;
        OTHERS: bar.sync 5, 64; DONE: st.global.u32 [%at], 1;"""
    assert words(body, 192, grid=3, block=64, limits=simt.Limits(threads=1, seconds=30)).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("one", ["bar.sync 2, 96;", "bar.arrive 2, 96;"])
def test_a_reduction_is_not_mixed_with_other_forms(one: str, seed: int | None) -> None:
    text = PARTS.format(one=one, rest="bar.red.popc.u32 %r1, 2, 96, %p1;")
    fault(KernelError, "all threads at barrier 2 must use red, or none", text, seed)
    clean(PARTS.format(one="bar.red.and.pred %p3, 2, 96, %p1;", rest="bar.red.popc.u32 %r1, 2, 96, %p1;"), seed)


# -- lanes of one warp ----------------------------------------------------------------------------------------------

ARMS = "and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN; {odd} bra DONE; EVEN: {even} DONE:"
#: Odd lanes arrive at the barrier later, because they take a loop first. No block has a number above 7.
LATER = """and.b32 %r1, %tid, 1; mov.u32 %r2, 0; mov.u32 %r4, 96;
    HEAD: setp.eq.u32 %p1, %r1, 1; @%p1 bra ROUND;
    barrier.sync {id}, {count}; setp.gt.u32 %p2, %block, 7; @%p2 bra HEAD; bra OUT;
    ROUND: mov.u32 %r1, 2; mov.u32 %r2, DIFFER; mad.lo.u32 %r4, %r2, 32, 96; bra HEAD; OUT:"""
AT_DIFFERENT_BARRIERS = {
    "one instruction": "and.b32 %r1, %tid, DIFFER; barrier.sync %r1;",
    "one instruction, counted": "and.b32 %r1, %tid, DIFFER; barrier.sync %r1, 96;",
    "one instruction, after a branch": (
        ARMS.format(odd="mov.u32 %r2, DIFFER;", even="mov.u32 %r2, 0;") + "barrier.sync %r2;"
    ),
    "one instruction, at different times": LATER.format(id="%r2", count="96"),
    "two instructions": ARMS.format(odd="barrier.sync DIFFER;", even="barrier.sync 0;"),
    "arrivals": ARMS.format(odd="barrier.cta.arrive DIFFER, 96;", even="barrier.cta.arrive 0, 96;"),
    "reductions": ARMS.format(odd="barrier.red.or.pred %p4, DIFFER, %p1;", even="barrier.red.or.pred %p4, 0, %p1;"),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("body", AT_DIFFERENT_BARRIERS.values(), ids=list(AT_DIFFERENT_BARRIERS))
def test_lanes_of_a_warp_wait_at_one_barrier(body: str, seed: int | None) -> None:
    """Each waits for all lanes of its warp, so at different barriers none can continue."""
    found = fault(DeadlockError, "the lanes of a warp must wait at the same barrier", body.replace("DIFFER", "1"), seed)
    assert re.search(r"\(got (0 where .* at 1|1 where .* at 0)\)", str(found))
    clean(body.replace("DIFFER", "0"), seed)


COUNTS = {
    "one instruction": "and.b32 %r1, %tid, DIFFER; mad.lo.u32 %r1, %r1, 32, 96; barrier.sync 4, %r1;",
    "one instruction, at different times": LATER.format(id="4", count="%r4"),
    "two instructions": ARMS.format(
        odd="mov.u32 %r4, DIFFER; mad.lo.u32 %r4, %r4, 32, 96; barrier.sync 4, %r4;", even="barrier.sync 4, 96;"
    ),
}


@pytest.mark.parametrize("body", COUNTS.values(), ids=list(COUNTS))
def test_lanes_of_a_warp_name_one_count(body: str) -> None:
    found = fault(KernelError, "must give the same thread count", body.replace("DIFFER", "1"))
    assert re.search(r"\(got (96 where .* gave 128|128 where .* gave 96)\)", str(found))
    clean(body.replace("DIFFER", "0"))


def test_lanes_that_exited_do_not_count() -> None:
    """Values of their registers do not count as another barrier's number."""
    got = words("""and.b32 %r1, %tid, 1; add.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r1, 1; @%p1 exit;
        barrier.sync %r2; st.global.u32 [%at], 1;""", 64, block=64)  # fmt: skip
    assert got.tolist() == [1, 0] * 32


def test_lanes_of_a_warp_reach_a_barrier_by_one_form() -> None:
    fault(
        KernelError,
        "the lanes of a warp must reach barrier 2 with the same form",
        ARMS.format(odd="barrier.sync 2, 96;", even="barrier.arrive 2, 96;"),
    )
    clean(ARMS.format(odd="barrier.sync 2, 96;", even="barrier.sync 2, 96;"))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("arrive", ["bar.arrive", "barrier.cta.arrive", "barrier.arrive"])
def test_a_warp_arrives_once_when_its_last_lane_does(arrive: str, seed: int | None) -> None:
    """Lanes of warp 0 arrive at two places: together they are 32 threads, and warps 1 and 2 the other 64."""
    body = f"""setp.ge.u32 %p2, %tid, 32; @%p2 bra REST; st.volatile.shared.u32 [s], 1;
        {ARMS.format(odd=f"{arrive} 1, COUNT;", even=f"st.volatile.shared.u32 [s], 7; {arrive} 1, COUNT;")}
        bra END; REST: bar.sync 1, COUNT; ld.volatile.shared.u32 %r9, [s]; setp.ne.u32 %p3, %r9, 7;
        @%p3 trap; END: st.global.u32 [%at], 1;"""
    shared = ".shared .align 4 .u32 s[4];"
    got = words(body.replace("COUNT", "96"), THREADS, block=THREADS, seed=seed, declarations=shared)
    assert got.tolist() == [1] * THREADS
    with pytest.raises(DeadlockError, match="barrier 1 has 96 of 128 threads"):
        words(body.replace("COUNT", "128"), THREADS, block=THREADS, seed=seed, declarations=shared)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("arrive", ["arrive", "sync"])
def test_lanes_that_arrive_in_divergent_code_continue(arrive: str, seed: int | None) -> None:
    """Warp 0 arrives at barriers 1 and 2, the others at 2 and 1: this ends only if an arrival does not wait."""
    body = f"""setp.ge.u32 %p2, %tid, 32; @%p2 bra REST;
        {ARMS.format(odd=f"barrier.{arrive} 1, 96;", even=f"barrier.{arrive} 1, 96;")} barrier.sync 2; bra END;
        REST: barrier.sync 2; barrier.sync 1, 96; END:"""
    if arrive == "arrive":
        clean(body, seed)
        return
    with pytest.raises(DeadlockError, match=r"barrier 1 has 32 of 96 threads .*; barrier 2 has 64 of 96 threads "):
        words(body, THREADS, block=THREADS, seed=seed)


# -- generations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_a_surplus_warp_waits_for_the_next_generation(seed: int) -> None:
    """The first two of three warps continue; the clean twin has a fourth."""
    program = kernel("bar.sync 1, 64; st.global.u32 [%at], 1;")
    memory = simt.Memory()
    out = memory.array(np.zeros(96, np.uint32))
    with pytest.raises(DeadlockError, match=r"barrier 1 has 32 of 64 threads \(warp \d; ") as raised:
        run(program, out, block=96, seed=seed)
    went_on = out.to_host().reshape(3, 32)
    waits = int(re.search(r"\(warp (\d);", str(raised.value))[1])
    assert went_on.all(axis=1).tolist() == [warp != waits for warp in range(3)]
    assert not went_on[waits].any()
    out = np.zeros(128, np.uint32)
    run(program, out, block=128, seed=seed)
    assert out.all()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_can_be_used_again_immediately_with_another_count(seed: int) -> None:
    """The first warp that leaves a generation is the first of the next; its count may differ."""
    clean("bar.sync 1, 96; bar.sync 1; shr.u32 %r7, %tid, 5; setp.eq.u32 %p1, %r7, 1; @%p1 bra ONE; "
          "bar.sync 1, 64; ONE: bar.sync 2; bar.sync 1, 96;", seed)  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_reductions_in_flight_at_different_barriers_keep_their_results(seed: int) -> None:
    """Two pairs of warps, three rounds: each pair counts and compares its own lanes, at its own barriers."""
    body = """shr.u32 %r1, %tid, 6; add.u32 %r2, %r1, 4; add.u32 %r3, %r1, 8; mov.u32 %r8, 0; mov.u32 %r9, 0;
        LOOP: mad.lo.u32 %r4, %r1, 10, 7; add.u32 %r4, %r4, %r9; setp.lt.u32 %p1, %lane, %r4;
        barrier.red.popc.u32 %r5, %r2, 64, %p1; setp.eq.u32 %p2, %r1, 1; barrier.red.and.pred %p3, %r3, 64, %p2;
        selp.u32 %r6, 100, 0, %p3; add.u32 %r8, %r8, %r5; add.u32 %r8, %r8, %r6; add.u32 %r9, %r9, 1;
        setp.lt.u32 %p4, %r9, 3; @%p4 bra LOOP; st.global.u32 [%at], %r8;"""
    got = words(body, 128, block=128, seed=seed)
    first, second = (sum(2 * (7 + 10 * pair + i) + 100 * pair for i in range(3)) for pair in (0, 1))
    assert got.tolist() == [first] * 64 + [second] * 64
