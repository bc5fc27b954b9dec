"""Calls about streams and events. Work is done when it is asked for, so a stream is always ready.

Source: CUDA Runtime API, "Stream Management", "Event Management".
"""

from __future__ import annotations

from tilewright.drivers import streams
from tilewright.drivers.cuda_programs.protocol import Caller
from tilewright.drivers.libcuda import devices


def cudaStreamCreate(call: Caller, stream: int) -> None:
    """A stream."""
    cudaStreamCreateWithPriority(call, stream, 0, 0)


def cudaStreamCreateWithFlags(call: Caller, stream: int, flags: int) -> None:
    """A stream that may be independent of the default one."""
    cudaStreamCreateWithPriority(call, stream, flags, 0)


def cudaStreamCreateWithPriority(call: Caller, stream: int, flags: int, priority: int) -> None:
    """A stream with a priority, which changes nothing here."""
    call.pack("Q", stream, devices.cuStreamCreateWithPriority(call.gpu, flags, priority))


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
    call.pack("I", flags, devices.cuStreamGetFlags(call.gpu, stream))


def cudaStreamGetPriority(call: Caller, stream: int, priority: int) -> None:
    """A stream's priority."""
    call.pack("i", priority, devices.cuStreamGetPriority(call.gpu, stream))


def cudaStreamGetId(call: Caller, stream: int, number: int) -> None:
    """A stream's number."""
    call.pack("Q", number, devices.cuStreamGetId(call.gpu, stream))


def cudaStreamGetDevice(call: Caller, stream: int, device: int) -> None:
    """A stream's device."""
    call.pack("i", device, devices.cuStreamGetDevice(call.gpu, stream))


def cudaStreamSetAttribute(call: Caller, stream: int, attribute: int, value: int) -> None:
    """Set an attribute, which changes nothing here."""
    call.gpu.stream(stream)


def cudaEventCreate(call: Caller, event: int) -> None:
    """An event."""
    cudaEventCreateWithFlags(call, event, 0)


def cudaEventCreateWithFlags(call: Caller, event: int, flags: int) -> None:
    """An event."""
    call.pack("Q", event, int(streams.cuEventCreate(call.gpu, flags)))


def cudaEventDestroy(call: Caller, event: int) -> None:
    """End an event."""
    streams.cuEventDestroy(call.gpu, event)
    call.runtime.captured.pop(event, None)


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
