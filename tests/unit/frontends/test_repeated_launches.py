"""Launches that repeat an accepted one with other values, and what must still be noticed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numba import cuda

import tilewright as tw
from tilewright.errors import KernelError
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.launching import LaunchConfig, Launcher
from tilewright.simulate.device.linking import ObjectCode
from tilewright.simulate.device.modules import Kernel
from tilewright.simulate.observer import ArgumentFact, Launch, Observer, Passed, PassedArguments, Run

PUT = b"""
.version 8.0 .target sm_80 .address_size 64
.visible .entry put(.param .u64 x, .param .u64 n) {
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [n]; mul.lo.s64 %rd3, %rd2, 3; st.global.u64 [%rd1], %rd3; ret;
}"""
#: The same, with its parameters read through their address.
PUT_BY_ADDRESS = b"""
.version 8.0 .target sm_80 .address_size 64
.visible .entry put(.param .u64 x, .param .u64 n) {
    .reg .b64 %rd<6>;
    mov.b64 %rd4, x; cvta.param.u64 %rd5, %rd4;
    ld.u64 %rd1, [%rd5]; ld.u64 %rd2, [%rd5+8]; mul.lo.s64 %rd3, %rd2, 3; st.global.u64 [%rd1], %rd3; ret;
}"""


class Put:
    """Launches of a kernel that stores three times a number."""

    def __init__(self, gpu: SimulatedGpu, text: bytes = PUT) -> None:
        self.gpu = gpu
        self.kernel = Kernel(ObjectCode(text, "ptx"), "put")
        self.launcher = Launcher(gpu)

    def __call__(self, x: int, n: int, passed: PassedArguments | None = None) -> None:
        self.launcher.note(lambda _: (ArgumentFact("x", address=x),), passed)
        self.launcher.launch(0, LaunchConfig(grid=1, block=1), self.kernel, x, n)

    def at(self, x: int) -> int:
        return int(self.gpu.memory.view(x, 8).view(np.int64)[0])


@pytest.fixture
def memory(gpu: SimulatedGpu) -> Iterator[list[int]]:
    """Two allocations."""
    cuda.current_context()
    yield [gpu.allocate(8) for _ in range(2)]


@pytest.mark.parametrize("text", [PUT, PUT_BY_ADDRESS], ids=["values", "by address"])
def test_numbers_that_cross_the_bounds_of_small_ones_are_their_own(
    gpu: SimulatedGpu, memory: Sequence[int], text: bytes
) -> None:
    put = Put(gpu, text)
    taken = gpu.memory.allocated_bytes
    for n in (5, 6, 1 << 31, (1 << 40) + 1, -7, 5):
        for x in memory:
            put(x, n)
            assert put.at(x) == 3 * n
    assert gpu.launches == 12
    assert gpu.memory.allocated_bytes == taken


def test_a_repeated_launch_outside_memory_fails_and_breaks_the_device(gpu: SimulatedGpu, memory: Sequence[int]) -> None:
    put = Put(gpu)
    put(memory[0], 1)
    put(memory[0], 2)
    with pytest.raises(KernelError, match="out of bounds global store"):
        put(memory[1] + (1 << 20), 3)
    with pytest.raises(Exception, match="an earlier launch failed"):
        put(memory[0], 4)
    assert put.at(memory[0]) == 6


def test_a_repeated_launch_gets_no_memory_that_has_ended() -> None:
    with tw.simulated_gpu("h100") as gpu:
        cuda.current_context()
        ended = gpu.allocate(8)
    with tw.simulated_gpu("h100") as gpu:
        cuda.current_context()
        x, put = gpu.allocate(8), Put(gpu)
        put(x, 1)
        put(x, 2)
        with pytest.raises(KernelError, match="memory at address"):
            put(ended, 3)


def test_a_repeated_launch_with_too_few_arguments_is_refused(gpu: SimulatedGpu, memory: Sequence[int]) -> None:
    put = Put(gpu)
    put(memory[0], 1)
    put(memory[0], 2, PassedArguments((Passed(8), Passed(8))))
    with pytest.raises(Exception, match=r"takes 2 kernel parameters \(got 1\)"):
        put(memory[0], 2, PassedArguments((Passed(8),)))
    assert gpu.launches == 3  # a refused launch has a number


class Seen(Observer):
    """What an observer sees that comes later."""

    def __init__(self) -> None:
        self.used: dict[int, frozenset[str]] = {}
        self.launches: list[str] = []

    def started(self, limit_bytes: int, used: Sequence[tuple[int, int, frozenset[str]]] = ()) -> None:
        self.used = {address: names for address, _, names in used}

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        self.launches.append(launch.name)


def test_an_observer_that_comes_later_knows_who_used_memory_and_sees_each_launch(
    gpu: SimulatedGpu, memory: Sequence[int]
) -> None:
    put, seen = Put(gpu), Seen()
    for x in memory:
        put(x, 1)
    with gpu.observing(seen):
        for n in range(3):
            put(memory[0], n)
    put(memory[0], 3)
    assert seen.used == dict.fromkeys(memory, frozenset({"put"}))
    assert seen.launches == ["put"] * 3


@cuda.jit
def add_to(x: Any, value: int) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] += value


def test_a_kernel_of_numba_repeats_with_other_arrays_and_values(gpu: SimulatedGpu) -> None:
    one, other = (cuda.to_device(np.zeros(40, np.int64)) for _ in range(2))
    for value in range(1, 6):
        add_to[2, 32](one, value)
        add_to[2, 32](other, -value)
    assert one.copy_to_host().tolist() == [15] * 40
    assert other.copy_to_host().tolist() == [-15] * 40
