"""Called functions that wait for other warps of their block, which run meanwhile."""

from __future__ import annotations

import contextlib
import signal
import threading
import time

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import LimitError, MemoryAccessError
from tilewright.ground.native.pages import stack_bytes, stack_end
from tilewright.programs import Program
from tilewright.simt import Limits, launch
from tilewright.simulate.run import turns

pytest.importorskip("cuda.bindings.nvrtc", reason="not run: NVRTC is not installed")

#: Warps hand a number on, each from a recursion of its own depth.
RELAY = r"""
__device__ __noinline__ int relay(int n, volatile int *turn, int warp, int warps, int rounds) {
    if (n > 0) return relay(n - 1, turn, warp, warps, rounds) + 1;
    int seen = 0;
    for (int round = 0; round < rounds; ++round) {
        while (*turn % warps != warp) {}
        seen += *turn;
        __threadfence_block();
        __syncwarp();
        if (threadIdx.x % 32 == 0) *turn = *turn + 1;
        __syncwarp();
    }
    return seen;
}
extern "C" __global__ void k(int *out, int depth, int rounds, int wrong) {
    __shared__ volatile int turn;
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
    if (threadIdx.x == 0) turn = 0;
    __syncthreads();
    if (wrong == 1 && warp == 1) { for (volatile int i = 0; i < 20000; ++i) {} out[1 << 28] = 1; }
    const int seen = relay(depth + warp % 3, &turn, wrong == 2 && warp == 1 ? 1000 : warp, warps, rounds);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = seen + turn;
}
"""
PROGRAM = Program.from_cuda(RELAY, "k")


def warp_threads() -> int:
    return sum(thread.name == "tilewright-warp" for thread in threading.enumerate())


def relayed(grid: int, warps: int, depth: int, rounds: int) -> np.ndarray:
    of_warp = [sum(w + r * warps for r in range(rounds)) + depth + w % 3 + rounds * warps for w in range(warps)]
    return np.tile(np.repeat(of_warp, 32), grid)


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize(("grid", "warps", "depth", "rounds"), [(1, 2, 3, 5), (5, 8, 0, 2), (1, 32, 10, 2)])
def test_warps_wait_for_each_other(seed: int | None, grid: int, warps: int, depth: int, rounds: int) -> None:
    out, before = np.zeros(grid * warps * 32, np.int32), warp_threads()
    launch(PROGRAM, grid, warps * 32, (out, depth, rounds, 0), seed=seed, limits=Limits(seconds=60))
    assert (out == relayed(grid, warps, depth, rounds)).all()
    assert warp_threads() == before


def test_threads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 warps in each of a cluster's 4 blocks."""
    for most in (16, 15):
        monkeypatch.setattr(turns, "WARP_THREADS_MAX", most)
        out, limits = np.zeros(512, np.int32), Limits(threads=1, seconds=60 if most == 16 else 1)
        with contextlib.nullcontext() if most == 16 else pytest.raises(LimitError):
            launch(PROGRAM, 4, 128, (out, 2, 2, 0), cluster=4, gpu="h100", limits=limits)
        assert (out == relayed(4, 4, 2, 2)).all() == (most == 16)


def test_checks_and_profiles_see_them_too() -> None:
    out = np.zeros(128, np.int32)
    assert not tw.check(PROGRAM, 1, 128, (out, 2, 2, 0))
    assert tw.profile(PROGRAM, 1, 128, (out, 2, 2, 0))


@pytest.mark.parametrize(
    ("wrong", "seconds", "error", "message"),
    [
        (1, 60, MemoryAccessError, r"out of bounds global store .* in block \(0, 0, 0\), thread \(32, 0, 0\)"),
        (2, 1, LimitError, r"limit of 1 seconds in block .* a loop may never end, or needs a higher limit$"),
    ],
)
def test_a_launch_that_fails_leaves_no_thread(wrong: int, seconds: int, error: type[Exception], message: str) -> None:
    """One warp fails, or none goes on, while the others wait in functions."""
    before, start = warp_threads(), time.monotonic()
    with pytest.raises(error, match=message):
        launch(PROGRAM, 1, 128, (np.zeros(128, np.int32), 2, 2, wrong), limits=Limits(seconds=seconds))
    assert warp_threads() == before and time.monotonic() - start < 20


def test_ctrl_c_while_threads_end_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = turns.WarpThread.join

    def join(thread: turns.WarpThread, timeout: float | None = None) -> None:
        signal.raise_signal(signal.SIGINT)
        joined(thread, timeout)

    monkeypatch.setattr(turns.WarpThread, "join", join)
    before = warp_threads()
    with pytest.raises(KeyboardInterrupt):
        launch(PROGRAM, 1, 128, (np.zeros(128, np.int32), 2, 2, 0), limits=Limits(seconds=60))
    assert warp_threads() == before


def test_a_thread_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    has_started = turns.has_started
    monkeypatch.setattr(turns, "has_started", lambda thread: thread.name != "tilewright-warp" and has_started(thread))
    with pytest.raises(MemoryError, match="cannot allocate a thread's stack for each warp"):
        launch(PROGRAM, 1, 128, (np.zeros(128, np.int32), 2, 2, 0))


def test_the_end_of_a_stack() -> None:
    found: list[tuple[int, int]] = []
    thread = threading.Thread(target=lambda: found.append((stack_end(), stack_bytes())))
    assert turns.has_started(thread)
    thread.join()
    assert found[0][0] > 0 and found[0][1] >= 200 << 20
