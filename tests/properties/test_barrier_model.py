"""Barriers against a short model of them, on random programs of arrivals, waits, reductions and exits.

Each warp reads its program from memory, or each lane its own copy, and writes to a log, with a ticket, when it arrives
at a barrier, when it continues, and when it exits. The model replays the arrivals in the log's order. It knows which
warps must wait, and the results of reductions; so no warp may continue before the model allows it. At the end the
same warps must wait, at barriers with the same counts.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

from tilewright import simt
from tilewright.errors import DeadlockError
from tilewright.programs import Program

WARPS, STEPS, LOG = 6, 24, 512
#: Kinds of steps; the last two need all warps that have not exited.
EXIT, ARRIVE, SYNC, POPC, SYNC_ALL, POPC_ALL = range(6)

#: One step of a warp: kind, barrier, count, and how many of its lanes vote yes. A log entry: ticket order; warp, step,
#: whether it continues, and the result.
KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry follow(.param .u64 programs, .param .u64 log, .param .u64 tickets)
{
  .reg .pred %p<12>; .reg .b32 %r<24>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [programs];
  ld.param.u64 %rd2, [log];
  ld.param.u64 %rd3, [tickets];
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  and.b32 %r3, %r1, 31;
  setp.eq.u32 %p1, %r3, 0;
  mul.wide.u32 %rd4, PROGRAM, STEP_BYTES;
  add.s64 %rd1, %rd1, %rd4;
  mov.u32 %r4, 0;
step:
  ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd1];
  mov.u32 %r10, 0;
  mov.u32 %r9, 0;
  @!%p1 bra act;
  NOTE
act:
  bar.warp.sync 0xffffffff;
  setp.lt.u32 %p9, %r3, %r8;
  setp.eq.u32 %p2, %r5, 0;
  @%p2 exit;
  setp.eq.u32 %p3, %r5, 1;
  @%p3 bra do_arrive;
  setp.eq.u32 %p4, %r5, 2;
  @%p4 bra do_sync;
  setp.eq.u32 %p5, %r5, 3;
  @%p5 bra do_popc;
  setp.eq.u32 %p6, %r5, 4;
  @%p6 bra do_sync_all;
  barrier.red.popc.u32 %r10, %r6, %p9;
  bra next;
do_arrive:
  barrier.arrive %r6, %r7;
  bra next;
do_sync:
  barrier.sync %r6, %r7;
  bra next;
do_popc:
  barrier.red.popc.u32 %r10, %r6, %r7, %p9;
  bra next;
do_sync_all:
  barrier.sync %r6;
next:
  mov.u32 %r9, 1;
  @!%p1 bra onward;
  NOTE
onward:
  add.s64 %rd1, %rd1, 16;
  add.u32 %r4, %r4, 1;
  bra step;
}
""".replace("STEP_BYTES", str(16 * STEPS)).replace(
    "NOTE",  # one more record: warp, step, whether it is over, and its result
    """atom.global.add.u32 %r11, [%rd3], 1;
  mul.wide.u32 %rd5, %r11, 16;
  add.s64 %rd5, %rd2, %rd5;
  st.global.v4.u32 [%rd5], {%r2, %r4, %r9, %r10};""",
)
#: Whether the translator must assume that lanes may diverge.
BY_WARP = Program.from_ptx(KERNEL.replace("PROGRAM", "%r2"))
BY_LANE = Program.from_ptx(KERNEL.replace("PROGRAM", "%r1"))


@dataclass
class Generation:
    """A barrier from its first arrival until it is complete."""

    arrived: int = 0
    count: int = 0
    joined: set[int] = field(default_factory=set)
    waiting: list[tuple[int, int]] = field(default_factory=list)
    votes: int = 0


class Model:
    """Sixteen barriers, one event at a time."""

    def __init__(self) -> None:
        self.barriers = [Generation() for _ in range(16)]
        self.gone: set[int] = set()
        self.may_go_on: dict[tuple[int, int], int] = {}  # (warp, step) -> the reduction's result

    def event(self, warp: int, step: int, kind: int, identity: int, count: int, votes: int) -> None:
        if kind == EXIT:
            self.gone.add(warp)
        else:
            now = self.barriers[identity]
            now.arrived += 32
            now.count = count
            now.joined.add(warp)
            if kind == ARRIVE:
                self.may_go_on[warp, step] = 0
            else:
                now.waiting.append((warp, step))
            now.votes += votes if kind in (POPC, POPC_ALL) else 0
        for number, now in enumerate(self.barriers):
            everyone = now.joined | self.gone == set(range(WARPS))
            if now.arrived and (everyone if now.count == 0 else now.arrived == now.count):
                self.may_go_on |= dict.fromkeys(now.waiting, now.votes)
                self.barriers[number] = Generation()

    def waits(self) -> dict[int, tuple[int, int, list[int]]]:
        """Incomplete barriers: their present and required counts, and the warps that arrived."""
        live = WARPS - len(self.gone)
        return {
            number: (now.arrived, now.count or 32 * live, sorted(now.joined))
            for number, now in enumerate(self.barriers)
            if now.arrived
        }


def random_programs(random: np.random.Generator) -> np.ndarray:
    """A program for each warp: rounds in which groups of warps meet at barriers; some rounds have a step too many."""
    programs: list[list[tuple[int, int, int, int]]] = [[] for _ in range(WARPS)]
    sizes = random.integers(1, WARPS, 16, endpoint=True)
    disturbed = random.random() < 0.5
    for _ in range(random.integers(3, STEPS - 4)):
        identity = int(random.integers(16))
        style, size = identity % 4, int(sizes[identity])
        warps = random.permutation(WARPS)[:size] if style < 2 else range(WARPS)
        for warp in warps:
            programs[warp].append(random_step(random, identity, style, size))
        if disturbed and random.random() < 0.3:
            programs[random.integers(WARPS)].append(random_step(random, identity, style, size))
    table = np.zeros((WARPS, STEPS, 4), np.uint32)  # zeros: EXIT
    for warp, steps in enumerate(programs):
        kept = steps[: STEPS - 1] if random.random() < 0.8 else steps[: random.integers(STEPS - 1)]
        table[warp, : len(kept)] = np.array(kept, np.uint32).reshape(-1, 4)
    return table


def random_step(random: np.random.Generator, identity: int, style: int, size: int) -> tuple[int, int, int, int]:
    """A barrier has one style: counted waits and arrivals, counted reductions, waits for all, reductions of all."""
    kind = (random.choice([ARRIVE, SYNC, SYNC]), POPC, SYNC_ALL, POPC_ALL)[style]
    return int(kind), identity, 32 * size if style < 2 else 0, int(random.integers(33))


def check(seed: int, order: int | None, program: Program) -> bool:
    """Run one set of programs and replay it; whether it ended."""
    programs = random_programs(np.random.default_rng(seed))
    memory = simt.Memory()
    log, tickets = memory.array(np.zeros((LOG, 4), np.uint32)), memory.array(np.zeros(1, np.uint32))
    read = programs if program is BY_WARP else programs.repeat(32, axis=0)
    limits = simt.Limits(seconds=30)
    stuck = ""
    try:
        simt.launch(program, 1, 32 * WARPS, (read, log, tickets), limits=limits, seed=order)
    except DeadlockError as error:
        stuck = str(error)
    model, went_on = Model(), set()
    for warp, step, goes_on, result in log.to_host()[: tickets.to_host()[0]].tolist():
        if goes_on:
            assert model.may_go_on.get((warp, step)) == result, (seed, order, warp, step, result)
            went_on.add((warp, step))
        else:
            model.event(warp, step, *programs[warp, step].tolist())
    assert went_on == set(model.may_go_on), (seed, order)
    reported = {
        int(number): (int(has), int(takes), [int(w) for w in warps.split(", ")])
        for number, has, takes, warps in re.findall(
            r"barrier (\d+) has (\d+) of (\d+) threads \(warps? ([\d, ]+);", stuck
        )
    }
    blocked = any(now.waiting for now in model.barriers)
    assert bool(stuck) == blocked, (seed, order, stuck)
    assert reported == (model.waits() if blocked else {}), (seed, order)
    return not stuck


@pytest.mark.parametrize("order", [None, 1, 2])
@pytest.mark.parametrize("program", [BY_WARP, BY_LANE], ids=["by warp", "by lane"])
def test_barriers_agree_with_the_model(program: Program, order: int | None) -> None:
    ended = Counter(check(seed, order, program) for seed in range(60))
    assert min(ended[True], ended[False]) >= 12, ended  # both kinds are tested


if __name__ == "__main__":  # in volume: python tests/properties/test_barrier_model.py FIRST COUNT
    first, count = int(sys.argv[1]), int(sys.argv[2])
    for program in (BY_WARP, BY_LANE):
        print(Counter(check(seed, seed % 7 or None, program) for seed in range(first, first + count)))
