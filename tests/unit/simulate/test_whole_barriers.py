"""Barriers at which whole warps wait: warps that exited are not waited for, warps that still run are."""

import numpy as np
import pytest

from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate.ptx import parse
from tilewright.simulate.translate.analysis.special import LaunchClass
from tilewright.simulate.translate.translation import QUANTUM, translate

# Each thread of warp w first counts to rounds[w]; then it writes its number to shared memory, and after the barrier
# reads that of the thread 32 further on. A warp whose rounds are negative exits immediately.
KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry pass_on(.param .u64 out, .param .u64 rounds)
{
  .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
  .shared .b32 numbers[128];
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [rounds];
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd2, %rd2, %rd3;
  ld.global.s32 %r3, [%rd2];
  setp.lt.s32 %p1, %r3, 0;
  @%p1 exit;
  mov.u32 %r4, 0;
count:
  add.s32 %r4, %r4, 1;
  setp.lt.s32 %p2, %r4, %r3;
  @%p2 bra count;
  shl.b32 %r5, %r1, 2;
  mov.u32 %r6, numbers;
  add.s32 %r7, %r6, %r5;
  add.s32 %r8, %r1, 1000;
  st.shared.u32 [%r7], %r8;
  BARRIER
  add.s32 %r9, %r5, 128;
  and.b32 %r9, %r9, 511;
  add.s32 %r9, %r9, %r6;
  ld.shared.u32 %r10, [%r9];
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd5, %rd1, %rd4;
  st.global.u32 [%rd5], %r10;
  ret;
}
"""
LONG = QUANTUM  # more instructions than a warp may run at a time
WHOLE = "bar.sync 0;"
COUNTED = "bar.sync 1, 128;"


def passed_on(barrier: str, rounds: list[int], seed: int | None = None) -> list[int]:
    """Which warp each warp read from; -1 if it read nothing."""
    out = np.full(128, -1, np.int32)
    launch(Program.from_ptx(KERNEL.replace("BARRIER", barrier)), 1, 128, (out, np.array(rounds, np.int32)), seed=seed)
    first = out[::32]
    lanes = np.where(first >= 0, 1, 0).repeat(32) * np.tile(np.arange(32), 4)
    assert (out == first.repeat(32) + lanes).all()
    return [(int(value) - 1000) // 32 if value >= 1000 else int(value) for value in first]


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize("slow", range(4))
@pytest.mark.parametrize("barrier", [WHOLE, COUNTED])
def test_warps_wait_for_one_that_runs_out_of_fuel(barrier: str, slow: int, seed: int | None) -> None:
    rounds = [0, 0, 0, 0]
    rounds[slow] = LONG
    assert passed_on(barrier, rounds, seed) == [1, 2, 3, 0]


@pytest.mark.parametrize("gone", [[0], [3], [1, 2], [0, 1, 2, 3]])
def test_warps_that_exited_are_not_waited_for(gone: list[int]) -> None:
    rounds = [-1 if warp in gone else 0 for warp in range(4)]
    read = passed_on(WHOLE, rounds)
    for warp, source in enumerate([1, 2, 3, 0]):
        if warp in gone or source not in gone:
            assert read[warp] == (-1 if warp in gone else source)


@pytest.mark.parametrize(("barrier", "points"), [(WHOLE, 0), ("bar.sync 5;", 0), (COUNTED, 1), ("bar.sync %r2;", 1)])
def test_only_whole_barriers_are_not_counted(barrier: str, points: int) -> None:
    text = KERNEL.replace("BARRIER", barrier).replace("@%p1 exit;", "").replace("@%p2 bra count;", "")
    made = translate(parse(text), "pass_on", LaunchClass.of((128, 1, 1), (1, 1, 1)))
    assert made.points == points


def test_a_barrier_some_lanes_may_miss_is_counted() -> None:
    text = KERNEL.replace("BARRIER", "setp.eq.u32 %p3, %r1, 7; @%p3 bra past; bar.sync 0; past:")
    made = translate(parse(text), "pass_on", LaunchClass.of((128, 1, 1), (1, 1, 1)))
    assert made.points == 1
