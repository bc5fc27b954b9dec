"""mbarriers: random operations of a warp's lanes against a scalar state machine, and warps that wait for each other."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable

import numpy as np
import pytest
from oracle_mbarrier import MOST, Mbarrier, RefusedError

from tilewright.errors import DeadlockError, KernelError, PtxError
from tilewright.programs import Program
from tilewright.simt import launch

LANES = 32
#: The result of a lane that does not execute, or of an operation without one.
UNSET = 77
#: Added to the number of a phase that is tested after all lanes have arrived.
PHASE = 1 << 30

Step = Callable[[Mbarrier], int]


def kernel(body: str, registers: str = "") -> Program:
    """A kernel of one parameter, `out`, of which %out is each thread's 64-bit element; %first holds in thread 0."""
    return Program.from_ptx(f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {{
.reg .pred %p<9>, %first; .reg .b32 %r<9>, %t, %bar; .reg .b64 %l<9>, %out, %any; {registers}
.shared .align 8 .b64 bars[4];
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mad.wide.u32 %out, %t, 8, %out; mov.u32 %bar, bars;
mov.u64 %any, bars; cvta.shared.u64 %any, %any; setp.eq.u32 %first, %t, 0;
{body}
ret;
}}
""")


def run(body: str, threads: int, registers: str = "", rows: int = 1, blocks: int = 1, **options) -> np.ndarray:
    """`out` after the launch: `rows` 64-bit elements of each thread."""
    out = np.zeros((rows, threads), np.int64)
    launch(kernel(body, registers), blocks, threads, (out,), **options)
    return out


def transaction(rng: random.Random, place: str, space: str) -> tuple[str, Step]:
    """An expect_tx or a complete_tx."""
    name, amount = rng.choice(["expect_tx", "complete_tx"]), rng.choice([0, 16, 16, 4096, MOST])
    order = rng.choice(["", ".relaxed.cta", ".relaxed.cluster"])

    def step(m: Mbarrier) -> int:
        getattr(m, name)(amount)
        return UNSET

    return f"mbarrier.{name}{order}{space}.b64 {place}, {amount};", step


def arrival(rng: random.Random, place: str, space: str, most: int) -> tuple[str, Step]:
    """Arrivals of any kind; the state says how many were pending."""
    kind, drop = rng.choice(["", "", "count", "expect_tx", "noComplete"]), rng.random() < 0.2
    amount = rng.choice([1, 1, 2, 31, most])
    count, expects = (1, amount * (kind == "expect_tx")) if kind in ("", "expect_tx") else (amount, 0)

    def step(m: Mbarrier) -> int:
        return m.arrive(count, drop=drop, expects=expects, no_complete=kind == "noComplete")[1]

    name = "arrive_drop" * drop or "arrive"
    modifier = f".{kind}" if kind in ("expect_tx", "noComplete") else ""
    operand = f", {amount}" if kind else ""
    line = f"mbarrier.{name}{modifier}{space}.b64 %l1, {place}{operand};"
    return f"{line}\n@%p1 mbarrier.pending_count.b64 %r1, %l1;", step


def parity_test(rng: random.Random, place: str, space: str) -> tuple[str, Step]:
    """Whether the phase of a parity is over."""
    name, parity = rng.choice(["test_wait", "try_wait"]), rng.choice([0, 1])
    line = f"mbarrier.{name}.parity{space}.b64 %p2, {place}, {parity};\n@%p1 selp.u32 %r1, 1, 0, %p2;"
    return line, lambda m: int(m.phase % 2 != parity)


def phase_test(rng: random.Random, place: str, space: str) -> tuple[str, Step]:
    """Lanes arrive; when all have, each asks for its own phase."""
    line = f"mbarrier.arrive{space}.b64 %l1, {place};\n@%p1 mbarrier.test_wait{space}.b64 %p2, {place}, %l1;"
    return f"{line}\n@%p1 selp.u32 %r1, 1, 0, %p2;", lambda m: PHASE + m.arrive()[0]


def sequence(seed: int, length: int) -> tuple[str, list[list[int]]]:
    """Operations that the manual defines, each by the lanes below some number, and their results in each lane."""
    rng = random.Random(seed)
    objects = [Mbarrier.init(rng.choice([1, 2, 3, 32, MOST])) for _ in range(4)]
    lines = [f"@%first mbarrier.init.shared.b64 [%bar+{8 * i}], {m.pending_arrivals};" for i, m in enumerate(objects)]
    seen: list[list[int]] = []
    while len(seen) < length:
        index, lanes = rng.randrange(4), rng.choice([1, 1, 2, 5, 32])
        place, space = rng.choice([(f"[%bar+{8 * index}]", ".shared::cta"), (f"[%any+{8 * index}]", "")])
        m = copy.deepcopy(objects[index])
        makers = (transaction, parity_test, phase_test, functools.partial(arrival, most=m.pending_arrivals or 1))
        line, step = rng.choice([*makers, makers[-1]])(rng, place, space)
        try:
            results = [step(m) for _ in range(lanes)]
        except RefusedError:
            continue
        if any(PHASE <= r < PHASE + m.phase - 1 for r in results):  # only the phase before may be asked for
            continue
        objects[index] = m
        results = [int(m.phase != r - PHASE) if r >= PHASE else r for r in results]
        at = 8 * LANES * len(seen)
        lines.append(f"setp.lt.u32 %p1, %t, {lanes}; mov.u32 %r1, {UNSET};\n@%p1 {line}")
        lines.append(f"cvt.u64.u32 %l2, %r1; st.global.u64 [%out+{at}], %l2;")
        seen.append(results + [UNSET] * (LANES - lanes))
    return "\n".join(lines), seen


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(s, marks=pytest.mark.volume) for s in range(6, 200))])
def test_random_operations(seed: int) -> None:
    body, expected = sequence(seed, 60)
    seen = run(body, LANES, rows=len(expected))
    for number, (row, wanted) in enumerate(zip(seen.tolist(), expected, strict=True)):
        assert row == wanted, f"operation {number}"


#: A loop of threads that all arrive and wait, so that none is a phase ahead.
_ROUNDS = """
@%first mbarrier.init.shared.b64 [%bar], 96;
bar.sync 0;
mov.u32 %r1, 0;
round: mbarrier.arrive.shared.b64 %l1, [%bar];
wait: mbarrier.try_wait.shared.b64 %p1, [%bar], %l1;
@!%p1 bra wait;
add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 200; @%p2 bra round;
cvt.u64.u32 %l2, %r1; st.global.u64 [%out], %l2;
"""


def test_warps_stay_in_the_same_phase() -> None:
    assert run(_ROUNDS, 96, blocks=3)[0].tolist() == [200] * 96


def test_waiting_costs_a_few_instructions_a_turn() -> None:
    """Warp 0 works long while warp 1 waits. If warp 1 did not yield, it would try a thousand times a turn."""
    body = """
@%first mbarrier.init.shared.b64 [%bar], 1;
bar.sync 0;
setp.ge.u32 %p3, %t, 32; @%p3 bra wait;
mov.u32 %r1, 0;
work: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 100000; @%p2 bra work;
@%first mbarrier.arrive.shared.b64 _, [%bar];
wait: mbarrier.try_wait.parity.shared.b64 %p1, [%bar], 0;
@!%p1 bra wait;
"""
    result = launch(kernel(body), 1, 64, (np.zeros(64, np.int64),))
    assert 300_000 < result.warp_instructions < 301_000


def test_lanes_wait_for_other_lanes_of_their_warp() -> None:
    """Four groups, each of which arrives for the next one and waits for the one before."""
    body = """
@%first mbarrier.init.shared.b64 [%bar], 8; @%first mbarrier.init.shared.b64 [%bar+8], 8;
@%first mbarrier.init.shared.b64 [%bar+16], 8; @%first mbarrier.init.shared.b64 [%bar+24], 8;
bar.warp.sync -1;
and.b32 %r1, %t, 24; add.u32 %r2, %bar, %r1; setp.eq.u32 %p3, %r1, 24; @%p3 bra last;
wait: mbarrier.try_wait.parity.shared.b64 %p1, [%r2+8], 0;
@!%p1 bra wait;
last: mbarrier.arrive.shared.b64 _, [%r2];
own: mbarrier.test_wait.parity.shared.b64 %p1, [%bar], 0;
@!%p1 bra own;
st.global.u64 [%out], 1;
"""
    assert run(body, 32, blocks=2)[0].tolist() == [1] * 32


def test_a_wait_that_ends_after_many_tries_is_no_deadlock() -> None:
    body = """
@%first mbarrier.init.shared.b64 [%bar], 2;
bar.sync 0; mov.u32 %r1, 0;
wait: mbarrier.test_wait.parity.shared.b64 %p1, [%bar], 0;
add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 5000;
@%p2 bra wait;
cvt.u64.u32 %l2, %r1; st.global.u64 [%out], %l2;
"""
    assert run(body, 64)[0].tolist() == [5000] * 64


@pytest.mark.parametrize("apart", ["", "setp.lt.u32 %p3, %t, 40; @%p3 bra wait; nop: bar.sync 1, 64;"])
def test_a_deadlock_names_the_mbarrier(apart: str) -> None:
    body = f"""
@%first mbarrier.init.shared.b64 [%bar+8], 65;
bar.sync 0;
@%first mbarrier.expect_tx.shared.b64 [%bar+8], 512;
mbarrier.arrive.shared.b64 _, [%bar+8];
{apart}
wait: mbarrier.try_wait.parity.shared.b64 %p1, [%bar+8], 0;
@!%p1 bra wait;
"""
    with pytest.raises(DeadlockError, match=r"0x8 \(phase 0, parity 0: 1 of 65 arrivals pending, 512 bytes") as caught:
        run(body, 64, blocks=2)
    assert caught.value.opcode == "mbarrier.try_wait.parity.shared.b64"
    assert "waits for the phase of parity 0 of the mbarrier" in str(caught.value)
    assert caught.value.fault == "mbarrier arrivals"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mbarrier.init.shared.b64 [%bar], 0;", r"must be 1 to 1,048,575 \(got 0\)"),
        ("mbarrier.init.shared.b64 [%bar], 0x100000;", "must be 1 to 1,048,575"),
        ("mbarrier.arrive.shared.b64 _, [%bar+8], 4;", r"\(got 4 of 3\)"),
        ("mbarrier.arrive.shared.b64 _, [%bar+8], 0;", "must be 1 to"),
        ("mbarrier.arrive.noComplete.shared.b64 _, [%bar+8], 3;", "noComplete must not complete"),
        ("mbarrier.complete_tx.shared.b64 [%bar+8], 0x100000;", "bytes pending at the mbarrier at 0x8"),
        ("mbarrier.inval.shared.b64 [%bar+8]; mbarrier.arrive.shared.b64 _, [%bar+8];", r"\(got 1 of 0\)"),
        ("mbarrier.arrive.shared.b64 _, [%bar+4];", "misaligned shared atomic of 8 bytes"),
        ("mbarrier.arrive.shared.b64 _, [%bar+0x10000];", "out of bounds shared atomic"),
        ("mbarrier.arrive.b64 _, [%out];", "out of bounds shared atomic"),
    ],
)
def test_faults(line: str, words: str) -> None:
    with pytest.raises(KernelError, match=words):
        run(f"mbarrier.init.shared.b64 [%bar+8], 3;\n{line}", 1)


def test_an_mbarrier_of_another_block_gives_no_state() -> None:
    with pytest.raises(PtxError, match="must be '_'"):
        run("mbarrier.arrive.shared::cluster.b64 %l1, [%bar];", 1)


def test_a_called_function_cannot_wait() -> None:
    text = """.version 8.7
.target sm_90a
.address_size 64
.visible .func waits(.param .u32 place) {
.reg .pred %p; .reg .b32 %r;
ld.param.u32 %r, [place];
wait: mbarrier.try_wait.parity.shared.b64 %p, [%r], 0;
@!%p bra wait;
{ .param .b32 arg; st.param.b32 [arg], %r; call waits, (arg); }
ret; }
.visible .entry k(.param .u64 out) { .param .b32 arg; st.param.b32 [arg], 0; call waits, (arg); ret; }
"""
    with pytest.raises(PtxError, match="waits for an mbarrier inside 'waits'"):
        launch(Program.from_ptx(text, "k"), 1, 1, (np.zeros(1, np.int64),))


def test_a_long_kernel_waits_in_pieces() -> None:
    more = "\n".join("mad.lo.u32 %r4, %r4, %r4, %t;" for _ in range(3000))
    assert run(_ROUNDS.replace("round: ", f"round: {more}\n"), 96)[0].tolist() == [200] * 96


def test_a_cluster_of_one_block() -> None:
    """Threads exchange through the block's own addresses as cluster addresses, behind the cluster's barrier."""
    body = """
mov.u32 %r3, %cluster_ctarank; mapa.shared::cluster.u32 %r1, %bar, %r3; mapa.u64 %l3, %any, 0;
mad.lo.u32 %r1, %t, 4, %r1; st.shared::cluster.u32 [%r1], %t;
fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cluster;
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
getctarank.shared::cluster.u32 %r2, %r1; xor.b32 %r4, %t, 7; mad.wide.u32 %l3, %r4, 4, %l3;
ld.u32 %r5, [%l3]; mad.lo.u32 %r5, %r2, 100, %r5; cvt.u64.u32 %l2, %r5; st.global.u64 [%out], %l2;
"""
    assert run(body, 8)[0].tolist() == [7 - t for t in range(8)]


def test_warps_that_wait_at_different_barriers_are_a_deadlock() -> None:
    body = "setp.ge.u32 %p1, %t, 32; @%p1 bra other; bar.sync 0; ret; other: bar.sync 1, 64;"
    with pytest.raises(DeadlockError, match="barrier 1 has 32 of 64 threads"):
        run(body, 64)


def test_an_address_of_another_block_is_a_fault() -> None:
    with pytest.raises(KernelError, match="out of bounds"):
        run("mapa.shared::cluster.u32 %r1, %bar, 1; ld.shared::cluster.u32 %r2, [%r1];", 1)
