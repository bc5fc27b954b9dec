"""The work of a captured stream, as steps that a graph repeats."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from tilewright.simulate.run.memory import Memory

#: What a launch in another stream should do.
OUTSIDE = "while a graph is captured, launches must be in its streams; use those, or launch before or after"


class HasMemory(Protocol):
    """What a graph needs of a `SimulatedGpu`."""

    closed: bool
    memory: Memory

    def free(self, address: int) -> None:
        """Free device memory."""


class Capture:
    """What a graph runs, in order, and the memory that it keeps."""

    def __init__(self, stream: int, handle: int) -> None:
        self.stream = stream  #: The stream whose capture began it.
        self.handle = handle  #: The driver's.
        self.steps: list[Callable[[], Any]] = []
        #: Captured streams, and events recorded in them, each with the streams whose work so far it follows.
        self.streams: dict[int, set[int]] = {stream: {stream}}
        self.events: dict[int, set[int]] = {}
        self.objects: dict[int, int] = {}  #: References to a program's objects.
        self.kept: list[Any] = []  #: Tensors whose memory the steps use.

    def refuse(self, call: str, why: str = "it needs results, which a capture does not compute") -> NoReturn:
        """Raises RuntimeError: a call cannot be captured."""
        raise RuntimeError(f"{call} must not be called while a graph is captured ({why}); call it before or after")

    def require(self, stream: int, call: str) -> None:
        """Raises RuntimeError: a stream is not captured."""
        if stream not in self.streams:
            raise RuntimeError(f"{call} is in a stream that is not captured; {OUTSIDE}")

    def add(self, stream: int, step: Callable[[], Any]) -> None:
        """Add a stream's work, which nothing that was recorded or joined before follows."""
        for other, followed in self.streams.items():
            if other != stream:
                followed.discard(stream)
        for followed in self.events.values():
            followed.discard(stream)
        self.steps.append(step)

    def recorded(self, event: int, stream: int) -> bool:
        """Record an event; return whether its stream is captured."""
        self.events.pop(event, None)
        if stream in self.streams:
            self.events[event] = set(self.streams[stream])
        return event in self.events

    def waits(self, stream: int, event: int) -> bool:
        """Make a stream follow the work before an event; return whether it is of the capture, as the stream then is."""
        if event in self.events:
            self.streams.setdefault(stream, {stream}).update(self.events[event])
        return event in self.events

    @property
    def unjoined(self) -> bool:
        """Whether a stream has work that the first one does not follow."""
        return not self.streams.keys() <= self.streams[self.stream]

    def keep(self, gpu: HasMemory, address: int) -> None:
        """Free device memory when nothing can repeat the graph any more."""
        weakref.finalize(self, free, gpu, address)

    def replay(self) -> None:
        """Run all steps."""
        for run in self.steps:
            run()


def free(gpu: HasMemory, address: int) -> None:
    """Free memory of a GPU, if it still exists."""
    if not gpu.closed and gpu.memory.extent(address):
        gpu.free(address)
