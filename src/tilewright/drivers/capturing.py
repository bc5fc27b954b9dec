"""The work of a captured stream, as steps that a graph repeats."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.drivers.gpu import SimulatedGpu


class Capture:
    """What a graph runs, in order, and the memory that it keeps."""

    def __init__(self, stream: int, handle: int = 0) -> None:
        self.stream = stream  #: The stream whose capture began it.
        self.handle = handle  #: The driver's; 0 if it is not the driver's graph.
        self.steps: list[Callable[[], Any]] = []
        #: Captured streams, and events recorded in them, each with the streams whose work so far it follows.
        self.streams: dict[int, set[int]] = {stream: {stream}}
        self.events: dict[int, set[int]] = {}
        self.objects: dict[int, int] = {}  #: References to a program's objects.

    def add(self, stream: int, step: Callable[[], Any]) -> None:
        """Add a stream's work, which nothing that was recorded or joined before follows."""
        for other, followed in self.streams.items():
            if other != stream:
                followed.discard(stream)
        for followed in self.events.values():
            followed.discard(stream)
        self.steps.append(step)

    def recorded(self, event: int, stream: int) -> None:
        """Record an event in a captured stream."""
        self.events[event] = set(self.streams[stream])

    def waits(self, stream: int, event: int) -> None:
        """Make a stream follow the work before an event of the capture, which captures the stream too."""
        followed = self.streams.setdefault(stream, {stream})
        followed |= self.events[event]

    @property
    def unjoined(self) -> bool:
        """Whether a stream has work that the first one does not follow."""
        return not self.streams.keys() <= self.streams[self.stream]

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
