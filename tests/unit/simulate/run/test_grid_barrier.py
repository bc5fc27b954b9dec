"""Blocks that wait for others that have ended."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

from tilewright import simulated_gpu
from tilewright.errors import DeadlockError, LimitError
from tilewright.simt import Memory
from tilewright.simulate.run import execution
from tilewright.simulate.run.grid_barrier import WORKSPACE_BYTES, GridBarrier

numba_cuda = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")


@pytest.mark.parametrize("with_first", [False, True])
@pytest.mark.parametrize("rounds", [0, 1, 2])
@pytest.mark.parametrize(("came", "live", "handed_out", "stuck"), [
    (3, 3, 4, True),  # one ended, three wait
    (2, 3, 4, False),  # one of the three still runs
    (3, 4, 4, False),  # no block has ended yet
    (3, 3, 3, False),  # a block has not started
    (1, 1, 4, True),
    (0, 1, 4, False),
])  # fmt: skip
def test_it_is_stuck_where_all_have_ended_or_wait(
    with_first: bool, rounds: int, came: int, live: int, handed_out: int, stuck: bool
) -> None:
    blocks, memory = 4, Memory(1 << 16)
    workspace = memory.allocate(WORKSPACE_BYTES)
    barrier = GridBarrier(memory, workspace, blocks)
    first = (1 << 31) - (blocks - 1) if with_first and came else came and 1  # the first arrival's addend
    word = rounds * (1 << 31) + first + max(came - 1, 0)  # each round changes the top bit
    memory.view(workspace + 4, 4).view(np.uint32)[0] = word % (1 << 32)
    for _ in range(live):
        barrier.entered()
    assert barrier.is_stuck(handed_out) is stuck
    assert barrier.ended == (4 - live) * stuck


@numba_cuda.jit
def rounds(out, last):
    grid = numba_cuda.cg.this_grid()
    for i in range(5):
        if numba_cuda.blockIdx.x == 3 and i == last:
            return
        grid.sync()
    out[numba_cuda.grid(1)] = 1


@pytest.mark.parametrize("threads", ["1", "2", "5"])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_block_that_leaves_is_reported_in_any_order(monkeypatch: pytest.MonkeyPatch, threads: str, seed: int) -> None:
    monkeypatch.setenv("TILEWRIGHT_THREADS", threads)
    for last in (0, 4):  # a GPU runs nothing after a failed launch
        with simulated_gpu(seed=seed):
            out = numba_cuda.to_device(np.zeros(7 * 32, np.float32))
            rounds[7, 32](out, 9)
            assert out.copy_to_host().all()
            with pytest.raises(
                Exception, match=r"1 of 7 blocks ended without reaching a barrier of the grid, at which"
            ):
                rounds[7, 32](out, last)


@pytest.mark.parametrize("first", [False, True])
def test_of_two_stopped_blocks_the_one_with_a_place_is_reported(first: bool) -> None:
    launch = object.__new__(execution.Execution)
    launch._lock, launch._failure, launch._stop = threading.Lock(), None, ctypes.c_int32()
    errors = [DeadlockError("stopped as it began"), DeadlockError("waits", line="k.py:9")]
    for error in errors[::-1] if first else errors:
        launch._fail(error)
    launch._fail(LimitError("too late", line="k.py:3"))
    assert launch._failure is errors[1]
    assert launch._stop.value == 1
