"""Launches whose blocks wait for each other: from CUDA C++ and Numba, with their limits and errors."""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import DeadlockError, KernelError, LaunchError, TrapError
from tilewright.programs import Program
from tilewright.simt import Limits, launch
from tilewright.simulate.run.diagnosis import Diagnosis

pytest.importorskip("cuda.bindings.nvrtc", reason="not run: NVRTC is not installed")

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void rounds(int *x, int n) {  // each element takes its left neighbour's value, n times
    const cg::grid_group grid = cg::this_grid();
    const unsigned i = grid.thread_rank(), size = grid.size();
    for (int step = 0; step < n; ++step) {
        const int left = x[(i + size - 1) % size];
        grid.sync();
        x[i] = left + 1;
        grid.sync();
    }
}

extern "C" __global__ void split(int *x) {  // between the two halves each block does something else
    const cg::grid_group grid = cg::this_grid();
    x[grid.thread_rank()] = 1;
    auto token = grid.barrier_arrive();
    grid.barrier_wait(static_cast<decltype(token) &&>(token));
    if (grid.block_rank() == 0) {
        int all = 0;
        for (unsigned i = 0; i < grid.size(); ++i) {
            all += x[i];
        }
        x[threadIdx.x] = all;
    }
}

extern "C" __global__ void leaves(int *x) {
    if (blockIdx.x == 1) {
        return;
    }
    cg::this_grid().sync();
    x[cg::this_grid().thread_rank()] = 1;
}

extern "C" __global__ void asks(int *x) {
    x[0] = cg::this_grid().is_valid();
}
"""


@functools.cache
def ptx() -> str:
    """All four kernels: the headers take NVRTC a second."""
    return Program.from_cuda(SOURCE, "rounds").ptx


def program(name: str) -> Program:
    return Program.from_ptx(ptx(), name)


@pytest.mark.parametrize(
    ("grid", "block", "seed"),
    [
        *(
            (*extents, seed)
            for extents in [(1, 1), (1, 33), (2, 32), (7, 40), ((2, 3), (4, 4)), ((2, 1, 2), (3, 2, 5))]
            for seed in (None, 1)
        ),
        (200, 8, 1),
    ],
)
def test_the_grid_waits_for_itself(grid: Any, block: Any, seed: int | None) -> None:
    size = int(np.prod(grid) * np.prod(block))
    x = np.arange(size, dtype=np.int32)
    launch(program("rounds"), grid, block, (x, 3), cooperative=True, seed=seed, limits=Limits(seconds=60))
    assert (x == np.roll(np.arange(size), 3) + 3).all()


def test_arrival_and_wait_may_be_separate() -> None:
    x = np.zeros(96, np.int32)
    launch(program("split"), 3, 32, (x,), cooperative=True)
    assert x.tolist() == [96] * 32 + [1] * 64


def test_a_grid_is_valid_only_in_a_cooperative_launch() -> None:
    x = np.full(1, 9, np.int32)
    assert [launch(program("asks"), 1, 1, (x,), cooperative=c) and int(x[0]) for c in (True, False)] == [1, 0]


def test_the_error_of_a_plain_launch_names_the_missing_option() -> None:
    with pytest.raises(TrapError, match=r"barrier of the grid must be that of a cooperative launch") as shown:
        launch(program("rounds"), 2, 32, (np.zeros(64, np.int32), 1))
    assert shown.value.line == "kernel.cu:10"
    assert [f.code for f in tw.check(program("rounds"), 2, 32, (np.zeros(64, np.int32), 1))] == ["TW509"]


def test_of_blocks_that_fail_early_the_first_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy host too: another thread would have 0.2 s in which the second block could fail."""
    real = Diagnosis.fault

    def slow(self: Diagnosis, *arguments: Any) -> KernelError:
        error = real(self, *arguments)
        if error.block == (0, 0, 0):
            time.sleep(0.2)
        return error

    monkeypatch.setenv("TILEWRIGHT_THREADS", "2")
    monkeypatch.setattr(Diagnosis, "fault", slow)
    (found,) = tw.check(program("rounds"), 4, 32, (np.zeros(128, np.int32), 1))
    assert (found.code, found.block) == ("TW509", (0, 0, 0))


def test_the_kernels_own_trap_stays_a_trap() -> None:
    source = SOURCE + 'extern "C" __global__ void own(int *x) { if (*x) __trap(); cg::this_grid().sync(); }'
    with pytest.raises(TrapError, match=r"`trap` in block .* at kernel.cu:\d+$") as shown:
        launch(Program.from_cuda(source, "own"), 1, 1, (np.ones(1, np.int32),))
    assert shown.value.fault == ""


def test_blocks_that_leave_are_reported() -> None:
    with pytest.raises(DeadlockError, match="1 of 4 blocks ended without reaching a barrier of the grid"):
        launch(program("leaves"), 4, 32, (np.zeros(128, np.int32),), cooperative=True)


@pytest.mark.parametrize(("grid", "shared_bytes", "resident"), [(4225, 0, 4224), (265, 100_000, 264)])
def test_no_more_blocks_than_the_gpu_holds(grid: int, shared_bytes: int, resident: int) -> None:
    given = (program("asks"), grid, 32, (np.zeros(1, np.int32),))
    with pytest.raises(LaunchError, match=f"has {grid:,} blocks of 32 threads, but the .* holds {resident:,} of them"):
        launch(*given, shared_bytes=shared_bytes, gpu="h100", cooperative=True)
    launch(*given, shared_bytes=shared_bytes, gpu="h100")
    found = tw.check(*given, shared_bytes=shared_bytes, gpu="h100", cooperative=True)
    assert [f.code for f in found] == ["TW508"]


def test_profile_launches_cooperatively_too() -> None:
    x = np.arange(64, dtype=np.int32)
    seen = tw.profile(program("rounds"), 2, 32, (x, 1), cooperative=True)
    assert seen.totals.warp_instructions > 0
    assert (x == np.roll(np.arange(64), 1) + 1).all()


def test_a_numba_kernel_that_waits_for_its_grid_needs_no_option() -> None:
    cuda = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")

    @cuda.jit
    def turned(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        x[i] += 1
        cuda.cg.this_grid().sync()
        out[i] = x[x.size - 1 - i]

    x, out = np.arange(128), np.zeros(128, np.int64)
    launch(turned, 4, 32, (x, out))
    assert (out == np.arange(128)[::-1] + 1).all()
    assert tw.check(turned, 4, 32, (x, out)) == ()
