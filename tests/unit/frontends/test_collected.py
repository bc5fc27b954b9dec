"""Arrays that Python collects at the worst moments: while lists of memory are walked, and on many threads."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from numba import cuda

import tilewright as tw
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.observer import BlocksAlone, Launch, Observer


@pytest.fixture(autouse=True)
def earlier_tests_left_alone() -> None:
    """Collections below examine only objects of these tests: those of thousands of tests take half a second."""
    gc.collect()
    gc.freeze()


def collect() -> None:
    """Free unreferenced objects; numba-cuda would wait for some more."""
    gc.collect()
    context = cuda.current_context()
    for pending in (context.memory_manager.deallocations, context.deallocations):
        pending.clear()


@cuda.jit
def double(x: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


class Dropping(Observer):
    """Frees one array at each event: as the collector does, at any time."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.shown: list[str] = []

    def _drop(self, name: str) -> None:
        self.shown.append(name)
        if self.held:
            self.held.pop()
            collect()

    def allocated(self, address: int, size_bytes: int) -> None:
        self._drop("allocated")

    def freed(self, address: int, size_bytes: int) -> None:
        self._drop("freed")

    def host_wrote(self, address: int, size_bytes: int) -> None:
        self._drop("host_wrote")

    def launching(self, launch: Launch, alone: BlocksAlone | None) -> bool:
        self._drop("launching")
        return False


@pytest.mark.parametrize(
    "make", [lambda: cuda.pinned_array(64), lambda: cuda.managed_array(64), lambda: cuda.to_device(np.zeros(64))]
)
def test_arrays_collected_while_a_launch_walks_all_of_them(make: Any) -> None:
    dropping = Dropping()
    with tw.simulated_gpu(observers=[dropping]) as gpu:
        kept = [make() for _ in range(6)]
        x = cuda.to_device(np.ones(64))
        dropping.held, dropping.shown = kept, []
        del kept
        for _ in range(4):
            double[1, 64](x)
        assert x.copy_to_host().tolist() == [16.0] * 64
        dropping.held.clear()
        collect()
        assert dropping.shown.count("freed") == 6
        assert len(gpu.memory.allocations()) == len(gpu.host_visible) + 1


def test_memory_is_freed_immediately_outside_driver_calls() -> None:
    with tw.simulated_gpu() as gpu:
        x = cuda.to_device(np.ones(64))
        collect()
        before = gpu.memory.allocated_bytes
        y = cuda.to_device(np.ones(64))
        assert gpu.memory.allocated_bytes > before
        del y
        collect()
        assert gpu.memory.allocated_bytes == before
        assert x.size == 64


def test_threads_that_allocate_launch_and_free_in_parallel() -> None:
    wrong = []

    def work(gpu: SimulatedGpu, number: int) -> None:
        for n in range(30):
            x = cuda.to_device(np.full(64, number + n))
            pinned = cuda.pinned_array(64 + number)
            double[1, 64](x)
            if x.copy_to_host().tolist() != [2 * (number + n)] * 64:
                wrong.append((number, n))
            del x, pinned

    with tw.simulated_gpu() as gpu:
        crew = [threading.Thread(target=work, args=(gpu, number)) for number in range(8)]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
        collect()
        assert len(gpu.memory.allocations()) == len(gpu.host_visible)
    assert wrong == []
