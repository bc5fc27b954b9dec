"""Events that observers get: memory, launches and their arguments, and instruments for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import cuda

import tilewright as tw
from tilewright.errors import OutOfMemoryError
from tilewright.instruments import Mix
from tilewright.simt import Run
from tilewright.simulate.events import Instrument
from tilewright.simulate.observer import BlocksAlone, Launch, Observer


class Diary(Observer):
    """Notes everything."""

    red_zones = True

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []
        self.runs: list[tuple[Launch, Run | None, Exception | None]] = []

    def instruments(self, launch: Launch) -> Sequence[Instrument]:
        return (Mix(),)

    def allocated(self, address: int, size_bytes: int) -> None:
        self.lines.append(("allocated", address, size_bytes))

    def freed(self, address: int, size_bytes: int) -> None:
        self.lines.append(("freed", address, size_bytes))

    def host_wrote(self, address: int, size_bytes: int) -> None:
        self.lines.append(("wrote", address, size_bytes))

    def launching(self, launch: Launch, alone: BlocksAlone | None) -> bool:
        self.lines.append(("launching", launch.index))
        return False

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        self.lines.append(("finished", launch.index))
        self.runs.append((launch, run, error))


@cuda.jit
def mixed(a: Any, pair: Any, factor: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i + pair[1]] = a[i, 0] * factor + pair[0][i]


def test_memory_and_launches_in_order() -> None:
    diary = Diary()
    with tw.simulated_gpu("h100", observers=[diary]):
        x = cuda.to_device(np.arange(32.0))
        y = cuda.device_array(32)
        start_x, start_y = x.device_ctypes_pointer.value, y.device_ctypes_pointer.value
        a = cuda.to_device(np.ones((32, 2), np.float32).T.copy().T)
        mixed[1, 32, 0, 16](a, (x, 0), 2.5, y)
        line = diary.runs[0][0].source_line
        brief = cuda.device_array(5, np.uint8)
        start_brief = brief.device_ctypes_pointer.value
        del brief
        cuda.current_context().memory_manager.deallocations.clear()
        with pytest.raises(tw.KernelError):
            mixed[1, 32](a, (x, 10**9), 2.5, y)
    assert diary.lines[:3] == [("allocated", start_x, 256), ("wrote", start_x, 256), ("allocated", start_y, 256)]
    assert start_y - start_x >= 64 << 10
    order = [line for line in diary.lines if line[0] in ("launching", "finished")]
    assert order == [("launching", 0), ("finished", 0), ("launching", 1), ("finished", 1)]
    assert ("freed", start_brief, 5) in diary.lines
    assert Path(line.rpartition(":")[0]).name == "test_observers.py"

    launch, run, error = diary.runs[0]
    assert error is None
    assert run is not None
    assert run.results["mix"] is not None
    assert (launch.name, launch.grid, launch.block, launch.shared_bytes) == ("mixed", (1, 1, 1), (32, 1, 1), 16)
    assert [fact.name for fact in launch.arguments] == ["a", "pair[0]", "pair[1]", "factor", "out"]
    first, inner, number, _, last = launch.arguments
    assert (first.dtype, first.shape, first.strides) == (np.dtype("f4"), (32, 2), (4, 128))
    assert (inner.address, inner.dtype) == (start_x, np.dtype("f8"))
    assert number.dtype is None
    assert last.address == start_y
    _, run, error = diary.runs[1]
    assert run is None
    assert isinstance(error, tw.KernelError)


def test_memory_that_both_sides_write_has_an_event_before_each_launch() -> None:
    diary = Diary()
    with tw.simulated_gpu("h100", observers=[diary]):
        shared = cuda.managed_array(32, np.float64)
        shared[:] = 1
        mixed[1, 32](np.ones((32, 1), np.float32), (shared, 0), 1.0, shared)
        address = shared.ctypes.data
    at = diary.lines.index(("launching", 0))
    assert ("wrote", address, 256) in diary.lines[:at]
    assert shared.tolist() == [2.0] * 32


def test_memory_that_an_observer_has_no_room_for_is_not_allocated() -> None:
    class Full(Observer):
        def allocated(self, address: int, size_bytes: int) -> None:
            raise OutOfMemoryError("no room")

    with tw.simulated_gpu("h100", observers=[Full()]) as gpu:
        with pytest.raises(cuda.cudadrv.driver.CudaAPIError, match="CUDA_ERROR_OUT_OF_MEMORY"):
            cuda.to_device(np.zeros(100))
        assert gpu.memory.allocated_bytes == 0
