"""Calls about streams and events. Work is done when it is asked for, so a stream is always ready.

Source: CUDA Runtime API, "Stream Management", "Event Management".
"""

from __future__ import annotations

from tilewright.drivers import streams
from tilewright.drivers.cuda_programs.protocol import Caller
from tilewright.drivers.gpu import Event, Stream

_NON_BLOCKING, _NO_TIMING = 1, 2


def cudaStreamCreate(call: Caller, stream: int) -> None:
    """A stream."""
    cudaStreamCreateWithPriority(call, stream, 0, 0)


def cudaStreamCreateWithFlags(call: Caller, stream: int, flags: int) -> None:
    """A stream that may be independent of the default one."""
    cudaStreamCreateWithPriority(call, stream, flags, 0)


def cudaStreamCreateWithPriority(call: Caller, stream: int, flags: int, priority: int) -> None:
    """A stream with a priority, which changes nothing here."""
    handle = call.gpu.new_handle()
    call.gpu.streams[handle] = Stream()
    call.runtime.notes["stream", handle] = flags, priority
    if flags & _NON_BLOCKING:
        call.gpu.outstanding.made_independent(handle)
    call.pack("Q", stream, handle)


def cudaStreamDestroy(call: Caller, stream: int) -> None:
    """End a stream when its work is done."""
    streams.cuStreamDestroy(call.gpu, stream)


def cudaStreamSynchronize(call: Caller, stream: int) -> None:
    """Wait for a stream's work."""
    streams.cuStreamSynchronize(call.gpu, stream)


def cudaStreamQuery(call: Caller, stream: int) -> None:
    """Whether a stream's work is done: it is."""
    streams.cuStreamQuery(call.gpu, stream)


def cudaStreamWaitEvent(call: Caller, stream: int, event: int, flags: int) -> None:
    """Let a stream wait for an event."""
    graph = call.runtime.captured.get(event)
    if graph is not None and graph in call.runtime.captures.values():
        call.gpu.stream(stream)
        call.runtime.captures[stream] = graph  # what waits for a captured stream is captured with it
    else:
        streams.cuStreamWaitEvent(call.gpu, stream, event, flags)


def cudaStreamGetFlags(call: Caller, stream: int, flags: int) -> None:
    """A stream's flags."""
    call.gpu.stream(stream)
    call.pack("I", flags, call.runtime.notes.get(("stream", stream), (0, 0))[0])


def cudaStreamGetPriority(call: Caller, stream: int, priority: int) -> None:
    """A stream's priority."""
    call.gpu.stream(stream)
    call.pack("i", priority, call.runtime.notes.get(("stream", stream), (0, 0))[1])


def cudaStreamGetId(call: Caller, stream: int, number: int) -> None:
    """A stream's number."""
    call.gpu.stream(stream)
    call.pack("Q", number, stream)


def cudaStreamGetDevice(call: Caller, stream: int, device: int) -> None:
    """A stream's device."""
    call.gpu.stream(stream)
    call.pack("i", device, 0)


def cudaStreamSetAttribute(call: Caller, stream: int, attribute: int, value: int) -> None:
    """Set an attribute, which changes nothing here."""
    call.gpu.stream(stream)


def cudaEventCreate(call: Caller, event: int) -> None:
    """An event."""
    cudaEventCreateWithFlags(call, event, 0)


def cudaEventCreateWithFlags(call: Caller, event: int, flags: int) -> None:
    """An event."""
    handle = call.gpu.new_handle()
    call.gpu.events[handle] = Event(timing=not flags & _NO_TIMING)
    call.pack("Q", event, handle)


def cudaEventDestroy(call: Caller, event: int) -> None:
    """End an event."""
    streams.cuEventDestroy(call.gpu, event)


def cudaEventRecord(call: Caller, event: int, stream: int) -> None:
    """Note the time in a stream."""
    streams.cuEventRecord(call.gpu, event, stream)
    call.runtime.captured.pop(event, None)
    if stream in call.runtime.captures:
        call.runtime.captured[event] = call.runtime.captures[stream]


def cudaEventRecordWithFlags(call: Caller, event: int, stream: int, flags: int) -> None:
    """Note the time in a stream."""
    cudaEventRecord(call, event, stream)


def cudaEventQuery(call: Caller, event: int) -> None:
    """Whether an event has come."""
    streams.cuEventQuery(call.gpu, event)


def cudaEventSynchronize(call: Caller, event: int) -> None:
    """Wait for an event."""
    streams.cuEventSynchronize(call.gpu, event)


def cudaEventElapsedTime(call: Caller, milliseconds: int, start: int, end: int) -> None:
    """Milliseconds between two events: the host's time, which is the simulator's and no GPU's."""
    call.pack("f", milliseconds, streams.cuEventElapsedTime(call.gpu, start, end))
