"""Streams and events of `torch.cuda`. All work is done when it is submitted, so nothing waits."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from tilewright.frontends.torch.devices import CUDA, require_only_gpu, require_working
from tilewright.simulate.device.gpu import Stream as GpuStream
from tilewright.simulate.device.installed_gpu import current_gpu

if TYPE_CHECKING:
    from tilewright.observe.profiling import Profiles

#: The number of CUDA's devices among torch's kinds.
_CUDA = 1


class Stream(torch.Stream):  # type: ignore[misc]
    """A stream, like `torch.cuda.Stream`; 0 is the default one. Its number is its handle."""

    def __new__(cls, device: Any = None, priority: int = 0, *, stream_ptr: int | None = None, **_: Any) -> Stream:  # noqa: D102
        require_only_gpu(device)
        if stream_ptr is None:
            gpu = current_gpu()
            stream_ptr = gpu.new_handle()
            gpu.streams[stream_ptr] = GpuStream()
        made: Stream = super().__new__(cls, stream_id=stream_ptr, device_index=0, device_type=_CUDA)
        return made

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.priority = priority
        self._before: list[Any] = []  # the streams that were current when this one was entered

    @property
    def cuda_stream(self) -> int:
        """The handle."""
        return int(self.stream_id)

    def __enter__(self) -> Stream:
        """Make this stream current in the body of `with`."""
        self._before.append(torch.cuda.current_stream())
        torch.cuda.set_stream(self)
        return self

    def __exit__(self, *error: object) -> None:
        """Make the previous stream current again."""
        torch.cuda.set_stream(self._before.pop())

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """The handle, for functions of `ctypes`."""
        return ctypes.c_void_p(self.cuda_stream)

    def synchronize(self) -> None:
        """Wait for the work of this stream."""
        wait()

    def query(self) -> bool:
        """Whether its work is done."""
        require_working(current_gpu())
        return True

    def wait_stream(self, stream: Any) -> None:
        """Make later work of this stream wait for another stream."""
        self.wait_event(stream.record_event())

    def wait_event(self, event: Any) -> None:
        """Make later work of this stream wait for an event."""
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event after its work so far."""
        event = event or Event()
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)


class ExternalStream(Stream):
    """A stream that other code created, given by its handle."""

    def __new__(cls, stream_ptr: int, device: Any = None, **_: Any) -> Stream:  # noqa: D102
        return super().__new__(cls, device, stream_ptr=stream_ptr)

    def __init__(self, stream_ptr: int, device: Any = None, **_: Any) -> None:
        super().__init__(device)


class Event:
    """An event: the number of launches before it, and the observer of those after it."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.timing = enable_timing
        self.recorded = False
        self.device, self.cuda_event = CUDA, current_gpu().new_handle()
        self._launches = 0
        self._seen: Profiles | None = None

    def record(self, stream: Any = None) -> None:
        """Record it after the work so far."""
        self.recorded, gpu = True, current_gpu()
        if gpu.capturing is not None:
            gpu.capturing.recorded(self.cuda_event, _handle(stream))
        if self.timing:
            from tilewright.frontends.benchmarks import observer_for_events

            self._launches, self._seen = gpu.launches, observer_for_events(gpu)

    def wait(self, stream: Any = None) -> None:
        """Make a stream's later work wait for it."""
        gpu = current_gpu()
        if gpu.capturing is not None:
            gpu.capturing.waits(_handle(stream), self.cuda_event)

    def query(self) -> bool:
        """Whether all work before it is done."""
        require_working(current_gpu())
        return True

    def synchronize(self) -> None:
        """Wait for the work before it."""
        wait()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between two events: the predicted times of the launches between them, of all streams, added."""
        if not (self.recorded and end_event.recorded):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.timing and end_event.timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        assert self._seen is not None
        from tilewright.frontends.benchmarks import between

        return between(self._seen, range(self._launches, end_event._launches))


def _handle(stream: Any) -> int:
    """The handle of a stream; None is the current stream."""
    return int((torch.cuda.current_stream() if stream is None else stream).cuda_stream)


def wait(device: Any = None) -> None:
    """Wait for all work.

    Raises RuntimeError: a graph is being captured, or there is no such device.
    """
    require_only_gpu(device)
    gpu = current_gpu()
    if gpu.capturing is not None:
        gpu.capturing.refuse("synchronize()")
    gpu.wait()
    require_working(gpu)


class Current(threading.local):
    """The current thread's stream."""

    stream: Any = None


class Streams:
    """Keeps the current stream."""

    def __init__(self) -> None:
        self._current = Current()

    def current(self, device: Any = None) -> Stream:
        """The current stream."""
        torch.cuda._lazy_init()
        return self._current.stream or self.default()

    def default(self, device: Any = None) -> Stream:
        """The default stream."""
        return Stream(stream_ptr=0)

    def set(self, stream: Any) -> None:
        """Make a stream current; one of `torch.Stream`, which has no handle, is as good as any."""
        self._current.stream = stream if stream is None or isinstance(stream, Stream) else Stream()

    @contextmanager
    def using(self, stream: Stream | None) -> Iterator[None]:
        """Make a stream current in the body."""
        before = self._current.stream
        self._current.stream = stream or before
        try:
            yield
        finally:
            self._current.stream = before
