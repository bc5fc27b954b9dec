"""The work of a captured stream, as steps that a graph repeats."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.drivers.gpu import SimulatedGpu


class Capture:
    """What a graph runs, in order, and the memory that it keeps."""

    def __init__(self, stream: int) -> None:
        self.stream = stream  #: The captured stream.
        self.steps: list[Callable[[], Any]] = []

    def keep(self, gpu: SimulatedGpu, address: int) -> None:
        """Free device memory when nothing can repeat the graph any more."""
        weakref.finalize(self, free, gpu, address)

    def replay(self) -> None:
        """Run all steps."""
        for run in self.steps:
            run()


def free(gpu: SimulatedGpu, address: int) -> None:
    """Free memory of a GPU, if it still exists."""
    if not gpu.closed and gpu.memory.extent(address):
        gpu.free(address)
