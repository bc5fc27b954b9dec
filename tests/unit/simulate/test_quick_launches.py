"""Small launches run on the calling thread; longer ones move to their own threads without any loss."""

import numpy as np
import pytest

from tilewright.programs import Program
from tilewright.simt import Limits, launch
from tilewright.simulate.run import crew, execution

# Every thread counts to `rounds`, then adds one to its block's element, and thread 0 prints.
KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[6] = {100, 111, 110, 101, 10, 0};
.visible .entry count(.param .u64 out, .param .u32 rounds)
{
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [rounds];
  mov.u32 %r2, 0;
again:
  add.s32 %r2, %r2, 1;
  bar.sync 0;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra again;
  mov.u32 %r3, %ctaid.x;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  red.global.add.u32 [%rd3], 1;
  mov.u32 %r4, %tid.x;
  setp.ne.u32 %p2, %r4, 0;
  @%p2 bra past;
  mov.u64 %rd4, text;
  cvta.global.u64 %rd5, %rd4;
  {
    .param .b64 f; .param .b64 a; .param .b32 r;
    st.param.b64 [f], %rd5;
    st.param.b64 [a], 0;
    call.uni (r), vprintf, (f, a);
  }
past:
  ret;
}
"""
BLOCKS = 6


def counted(rounds: int, threads: int) -> tuple[list[int], int, str]:
    """The blocks' counts, the warp instructions, and the output."""
    out = np.zeros(BLOCKS, np.int32)
    run = launch(Program.from_ptx(KERNEL), BLOCKS, 96, (out, rounds), limits=Limits(threads=threads))
    return out.tolist(), run.warp_instructions, run.printed


def no_threads(*_: object) -> list[object]:
    raise AssertionError("started threads")


def test_a_small_launch_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "start_worker", no_threads)
    assert counted(10, threads=2)[0] == [96] * BLOCKS


def test_a_long_launch_starts_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "start_worker", no_threads)
    with pytest.raises(AssertionError, match="started threads"):
        counted(60_000, threads=2)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_nothing_is_lost_where_threads_take_over(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = (
        4 * execution._QUICK_INSTRUCTIONS // (4 * 3 * BLOCKS) + 1
    )  # the pause comes in the middle of the second block
    out, instructions, printed = counted(rounds, threads)
    assert out == [96] * BLOCKS
    assert printed == "done\n" * BLOCKS
    monkeypatch.setattr(execution, "_QUICK_PTX_CHARACTERS", 0)  # all of it on threads
    assert counted(rounds, threads) == (out, instructions, printed)


@pytest.mark.parametrize("quick", [0, 1, 100, 5_000])
def test_the_pause_may_come_at_any_time(quick: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = counted(200, threads=1)
    monkeypatch.setattr(execution, "_QUICK_INSTRUCTIONS", quick)
    monkeypatch.setattr(crew, "QUICK_QUANTUM", 50)
    assert counted(200, threads=2) == expected
